"""Bases of the appenders to a topic and of its readers: offsets, and the detection of a recreated topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from lakelog.io.clock import monotonic_s
from lakelog.logstore.base import LogAppender, LogLocation, LogReader
from lakelog.logstore.kafka.topic import EARLIEST, LATEST, KafkaTopic
from lakelog.logstore.topic_identity import IdentityWatch, missing

_ERRORS_S: Final = 3.0
"""Seconds after a lost connection until a waiting reader checks that the broker is available."""


class _Appended(Protocol):
    bucket: int

    @property
    def ends(self) -> tuple[int, int] | None: ...


class TopicClient:
    """A client that watches the identity of its topic."""

    def __init__(self, location: LogLocation, check_same_topic: Callable[[], object] | None = None) -> None:
        """``check_same_topic`` raises TableReplaced for another topic of this name. Raises Unavailable."""
        self._location = location
        self._topic = KafkaTopic(location)
        self._topic.check()
        self._watch = IdentityWatch(check_same_topic or self._topic.check_same)

    @property
    def is_stale(self) -> bool:
        return self._watch.is_stale


class TopicAppender(TopicClient, LogAppender):
    """An appender that knows the last offset of each bucket."""

    def __init__(self, location: LogLocation, check_same_topic: Callable[[], object] | None = None) -> None:
        super().__init__(location, check_same_topic)
        self._last: dict[int, int] = {}

    def end_offsets(self) -> dict[int, int]:
        return self._topic.offsets(LATEST, range(self._location.buckets))

    def _check_same_topic(self, appended: _Appended) -> None:
        """Detects a deleted topic that the broker re-created automatically, which the client does not notice."""
        if appended.ends is not None:
            first, last = appended.ends
            if first <= self._last.get(appended.bucket, -1):
                self._watch.is_stale = True
                raise missing(self._location, "was recreated")
            self._last[appended.bucket] = last


class TopicReader(TopicClient, LogReader):
    """A reader that detects an outage of the broker while it waits."""

    def __init__(self, location: LogLocation, check_same_topic: Callable[[], object] | None = None) -> None:
        super().__init__(location, check_same_topic)
        self._error_since_s: float | None = None

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return self._offsets(LATEST, buckets)

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return self._offsets(EARLIEST, buckets)

    def _offsets(self, spec: OffsetSpec, buckets: Sequence[int] | None) -> dict[int, int]:
        self._watch.check()
        return self._topic.offsets(spec, range(self._location.buckets) if buckets is None else list(buckets))

    def _note_error(self) -> None:
        if self._error_since_s is None:
            self._error_since_s = monotonic_s()

    def _check_after_errors(self) -> None:
        """Sends a request to the broker, because a waiting reader does not detect an outage. Raises Unavailable."""
        if self._error_since_s is not None and monotonic_s() - self._error_since_s > _ERRORS_S:
            self._error_since_s = None
            self.end_offsets([0])
