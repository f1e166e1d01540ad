"""Metrics of this process, which exporters read. An update costs a lock and an addition."""

from __future__ import annotations

import bisect
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.options.boundary import STATEMENT
from lakelog.options.metric import Metric
from lakelog.options.metrics import LOG_ERRORS

_LOG: Final = logging.getLogger("lakelog.steps")


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


@dataclass(eq=False)
class Step:
    """A timed operation: a write, a commit, a compaction. Bars show it while it runs, spans and DEBUG lines its end.

    ``begun_s`` is a monotonic time. ``done`` of ``total`` are counted in ``unit`` (rows, bytes, …); without a ``total``
    the end is unknown. ``seconds`` is set at the end, and ``failure`` is then the class of the error.
    """

    name: str
    fields: dict[str, object]
    begun_ms: int
    begun_s: float
    unit: str = ""
    total: int | None = None
    done: int = 0
    seconds: float = 0.0
    failure: str | None = None

    def set(self, **fields: object) -> None:
        """Adds fields that are only known at the end, such as the new snapshot."""
        self.fields.update(fields)

    def advance(self, amount: int) -> None:
        """Adds to what is done. The caller is one thread, or holds a lock."""
        self.done += amount

    def __str__(self) -> str:
        """One line, for the log."""
        about = [f"{name}={value}" for name, value in self.fields.items() if value is not None]
        about += [f"{self.unit}={self.done}"] if self.unit else []
        about += [f"failure={self.failure}"] if self.failure else []
        return " ".join([self.name, *about, f"in {self.seconds:.3f} s"])


Listener = Callable[[Step], None]
_Key = tuple[Metric, tuple[str, ...]]


class Meter:
    """Metrics of this process since its start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[_Key, float] = {}
        self._counts: dict[_Key, list[int]] = {}
        self._listeners: tuple[Listener, ...] = ()
        self._running: set[Step] = set()
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
    def step(self, name: str, unit: str = "", total: int | None = None, **fields: object) -> Iterator[Step]:
        """Times the block, and reports it at its end to every listener and at DEBUG to the logger ``lakelog.steps``."""
        step = Step(name, fields, now_ms(), monotonic_s(), unit, total)
        with self._lock:
            self._running.add(step)
        try:
            yield step
        except BaseException as why:
            step.failure = type(why).__name__
            raise
        finally:
            step.seconds = monotonic_s() - step.begun_s
            with self._lock:
                self._running.discard(step)
            _LOG.debug("statement %s: %s", STATEMENT.get(), step)
            for listener in self._listeners:
                # a listener must not break the step
                with contextlib.suppress(Exception):
                    listener(step)

    def running(self) -> list[Step]:
        """The steps that run now, the oldest first."""
        with self._lock:
            return sorted(self._running, key=lambda step: step.begun_s)

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
        self._listeners, self._running, self._changed = (), set(), None


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
