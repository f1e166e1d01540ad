"""Bugs to plant into a log in files: its simulation has to find each one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final
from weakref import WeakSet

import orjson
from protocol_bugs import planted

from lakelog.errors import CommitUnknown
from lakelog.io.clock import Moment, now_ms
from lakelog.logstore.files import chain
from lakelog.logstore.files.appender import FilesAppender
from lakelog.logstore.files.chain import Floor, SegmentChain
from lakelog.logstore.files.segment import Segment

_CREATE: Final = SegmentChain.create
_CONFIRM: Final = SegmentChain.confirm
_FLOOR: Final[Callable[[SegmentChain], Floor]] = SegmentChain.floor.fget  # type: ignore[attr-defined]
_BLIND: Final[WeakSet[SegmentChain]] = WeakSet()
"""Clients that at the moment take the floor that they know for the present one."""
_LOOKED: Final[WeakSet[SegmentChain]] = WeakSet()


@contextmanager
def _blind(segments: SegmentChain) -> Iterator[None]:
    _BLIND.add(segments)
    try:
        yield
    finally:
        _BLIND.discard(segments)


def _floor(segments: SegmentChain) -> Floor:
    return segments.known_floor if segments in _BLIND else _FLOOR(segments)


def _acknowledge_at_once(segments: SegmentChain, number: int, data: bytes, segment: Segment) -> bool:
    """Creates a segment and does not look at the floor."""
    with _blind(segments):
        return _CREATE(segments, number, data, segment)


def _look_too_early(segments: SegmentChain, number: int, data: bytes, segment: Segment) -> bool:
    """Looks at the floor before it creates a segment, not after it."""
    if number < segments.floor.number:
        return False
    with _blind(segments):
        return _CREATE(segments, number, data, segment)


def _delete_first(segments: SegmentChain, cutoff_ms: int, floors: Mapping[int, int] | None = None) -> None:
    """Deletes segments, and moves the floor when they are gone."""
    floor, newest = segments.floor, segments.newest()

    def is_retained(segment: Segment) -> bool:
        is_needed = floors is not None and any(end > floors.get(b, 0) for b, end in enumerate(segment.ends))
        return segment.timestamp_ms >= cutoff_ms or is_needed

    number = min(segments.first(is_retained), newest)
    if number <= floor.number:
        return
    moved = orjson.dumps({"number": number, "offsets": segments.held(lambda: segments.starts(number))})
    for expired in range(floor.number, number):
        segments._io.delete(segments.path(expired))
    with suppress(CommitUnknown):
        segments._io.create(segments._floors.path(floor.number), moved)


def _never_look(segments: SegmentChain, *how: Any, **more: Any) -> int:
    """Takes what was read for what the log has."""
    with _blind(segments):
        return _CONFIRM(segments, *how, **more)


def _look_once(segments: SegmentChain, *how: Any, **more: Any) -> int:
    """Looks at the floor after the first read only."""
    if segments in _LOOKED:
        return _never_look(segments, *how, **more)
    _LOOKED.add(segments)
    return _CONFIRM(segments, *how, **more)


def _as_of_the_answer(segments: SegmentChain) -> Floor:
    """Takes a floor for as recent as its answer, which may have come late."""
    found = _floor(segments)
    segments._floor_read = Moment.now()
    return found


def _other(appender: FilesAppender, number: int, token: str) -> bool:
    """Takes a segment that it has created for another writer's."""
    return False


def _machine_now(segments: SegmentChain) -> int:
    """Takes the time of the machine for that of the storage."""
    return now_ms()


def _by_noted_times(segments: SegmentChain, cutoff_ms: int, floors: Mapping[int, int] | None, newest: int) -> int:
    """Believes the times that writers have noted."""
    return min(segments.first(lambda segment: chain._is_retained(segment, cutoff_ms, floors)), newest)


_planted: Final = partial(planted, (SegmentChain, "floor", property(_floor)))

LOG_BUGS: Final = {
    "acknowledged-at-once": _planted((SegmentChain, "create", _acknowledge_at_once)),
    "floor-too-early": _planted((SegmentChain, "create", _look_too_early)),
    "deleted-before-the-floor": _planted((SegmentChain, "expire", _delete_first)),
    "reader-never-looks": _planted((SegmentChain, "confirm", _never_look)),
    "reader-trusts-for-ever": _planted((SegmentChain, "confirm", _look_once)),
    "appended-again": _planted((FilesAppender, "_exists", _other)),
    "deleted-at-once": _planted((chain, "DELETE_AFTER_MS", 0)),
    "expired-by-any-clock": _planted((SegmentChain, "stored_now_ms", _machine_now)),
    "aged-by-any-clock": _planted((SegmentChain, "_first_retained", _by_noted_times)),
    "recent-as-its-answer": _planted((SegmentChain, "floor", property(_as_of_the_answer))),
}
