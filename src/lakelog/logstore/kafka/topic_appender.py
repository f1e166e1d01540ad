"""Base of both appenders to a topic: its end offsets, and the detection of a topic that was recreated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lakelog.logstore.base import LogAppender, LogLocation
from lakelog.logstore.kafka.topic import LATEST, KafkaTopic
from lakelog.logstore.topic_identity import IdentityWatch, missing


class _Appended(Protocol):
    bucket: int

    @property
    def ends(self) -> tuple[int, int] | None: ...


class TopicAppender(LogAppender):
    """An appender that knows the last offset of each bucket and watches the identity of its topic."""

    def __init__(self, location: LogLocation, check_same_topic: Callable[[], object] | None = None) -> None:
        """``check_same_topic`` raises TableReplaced for another topic of this name. Raises Unavailable."""
        self._location = location
        self._topic = KafkaTopic(location)
        self._topic.check()
        self._watch = IdentityWatch(check_same_topic or self._topic.check_same)
        self._last: dict[int, int] = {}

    @property
    def is_stale(self) -> bool:
        return self._watch.is_stale

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
