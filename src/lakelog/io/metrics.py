"""Metrics of this process, which exporters read. An update costs a lock and an addition."""

from __future__ import annotations

import bisect
import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.options.metric import Metric
from lakelog.options.metrics import LOG_ERRORS


@dataclass(frozen=True)
class Sample:
    """One value of a metric with its labels (values, in the order of ``metric.labels``).

    For a histogram, ``value`` is the sum of the observed values and ``counts`` the number per bucket, with the last one
    for values above the largest limit.
    """

    metric: Metric
    labels: tuple[str, ...]
    value: float
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Step:
    """A timed operation: a commit, a seal, a compaction. ``failure`` is the class of its error."""

    name: str
    fields: Mapping[str, object]
    begun_ms: int
    seconds: float
    failure: str | None = None


@dataclass
class SpanAttributes:
    """The fields of a running step; ``seconds`` is set at its end."""

    fields: dict[str, object] = field(default_factory=dict)
    seconds: float = 0.0

    def set(self, **fields: object) -> None:
        """Adds fields that are only known at the end, such as the new snapshot."""
        self.fields.update(fields)


Listener = Callable[[Step], None]
_Key = tuple[Metric, tuple[str, ...]]


class Meter:
    """Metrics of this process since its start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[_Key, float] = {}
        self._counts: dict[_Key, list[int]] = {}
        self._listeners: tuple[Listener, ...] = ()
        self._changed: Callable[[], None] | None = None

    def add(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        """Adds to a counter; ``labels`` are its declared labels (KeyError for a missing one)."""
        if not amount:
            return
        key = (metric, tuple(labels[name] for name in metric.labels))
        with self._lock:
            self._sums[key] = self._sums.get(key, 0) + amount
        if self._changed is not None:
            self._changed()

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Counts a value in its bucket of a histogram."""
        key = (metric, tuple(labels[name] for name in metric.labels))
        at = bisect.bisect_left(metric.limits, value)
        with self._lock:
            counts = self._counts.setdefault(key, [0] * (len(metric.limits) + 1))
            counts[at] += 1
            self._sums[key] = self._sums.get(key, 0) + value
        if self._changed is not None:
            self._changed()

    def samples(self) -> list[Sample]:
        """All current samples, in the order of their first update."""
        with self._lock:
            return [Sample(*key, value, tuple(self._counts.get(key, ()))) for key, value in self._sums.items()]

    @contextlib.contextmanager
    def step(self, name: str, **fields: object) -> Iterator[SpanAttributes]:
        """Times the block and reports it to every listener at its end."""
        span, begun_ms, begun, failure = SpanAttributes(dict(fields)), now_ms(), monotonic_s(), None
        try:
            yield span
        except BaseException as why:
            failure = type(why).__name__
            raise
        finally:
            span.seconds = monotonic_s() - begun
            step = Step(name, span.fields, begun_ms, span.seconds, failure)
            for listener in self._listeners:
                # a listener must not break the step
                with contextlib.suppress(Exception):
                    listener(step)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Registers a listener of every step, called in the thread of the step; returns a function to remove it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(one for one in self._listeners if one is not listener)

        return end

    def when_changed(self, call: Callable[[], None] | None) -> None:
        """Sets a function to call after each change, in its thread (None: no function). Used to share metrics."""
        self._changed = call

    def reset(self) -> None:
        """Resets all metrics. For tests."""
        with self._lock:
            self._sums.clear()
            self._counts.clear()

    def reset_after_fork(self) -> None:
        """Resets the metrics in a forked process, because its parent reports its own."""
        self._lock = threading.Lock()
        self._sums, self._counts = {}, {}
        self._listeners, self._changed = (), None


METER: Final = Meter()
"""The metrics of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=METER.reset_after_fork)


def merged(samples: Iterable[Sample]) -> list[Sample]:
    """Merges samples of several processes by adding those of the same metric and labels."""
    out: dict[_Key, Sample] = {}
    for sample in samples:
        key = (sample.metric, sample.labels)
        known = out.get(key)
        if known is None:
            out[key] = sample
        else:
            counts = tuple(map(sum, zip(known.counts, sample.counts, strict=True)))
            out[key] = Sample(*key, known.value + sample.value, counts)
    return list(out.values())


@contextlib.contextmanager
def log_errors(table: str, operation: str) -> Iterator[None]:
    """Counts errors of appends to a log, or of its reads (``operation``: append or read)."""
    try:
        yield
    except LakelogError as why:
        METER.add(LOG_ERRORS, table=table, operation=operation, error=type(why).__name__)
        raise
