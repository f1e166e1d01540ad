"""The segments of a log in order: its floor, its newest segment, and the segment of an offset (RFC 15).

``<address>/log.json`` identifies the log. Below ``<address>/<log id>``, ``segments/<number>`` are created if absent,
each after the one before it. ``floors/<number>`` is created if absent when the segments from that number on expire, and
contains the first number that stays. ``hint`` is the number of a recent segment, so that a new client finds the end
with few requests.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypedDict, TypeVar

import orjson
import pyarrow as pa
from cachetools import LRUCache

from lakelog.errors import CommitUnknown, Corrupt, LakelogError, NotFound
from lakelog.io.clock import LONG_AGO, Moment, monotonic_s, now_ms
from lakelog.io.journal import Journal
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.local import LocalFileIO
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.logstore.base import LARGEST_OFFSET, LogLocation
from lakelog.logstore.files.segment import Segment, damaged, read_footer

T = TypeVar("T")

_HELD_FOOTERS: Final = 1024
_HELD_SMALL: Final = 64
_SMALL: Final = 64 << 10
"""Bytes up to which a segment is kept in memory with its footer."""
_LOG_ID: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")
HINT_EVERY: Final = 64
"""Segments between two hints."""
_RECENT_S: Final = 2.0
"""Seconds in which no rival is likely to have appended, so that a writer tries the number after its last one."""
_TRUSTED_S: Final = 2.0
"""Seconds in which a reader relies on the floor that it has read: no segment that was above it is deleted yet."""
DELETE_AFTER_MS: Final = 600_000
"""Milliseconds from the move of the floor until the segments below it are deleted."""


@dataclass(frozen=True)
class Floor:
    """The number of the first segment that is kept, and the end offsets of all buckets before it."""

    number: int
    offsets: tuple[int, ...]


def storage_of(location: LogLocation) -> FileIO:
    """The storage of the log; local files for a location that names none."""
    return LocalFileIO() if location.storage is None else location.storage


class LogIdentity(TypedDict):
    """The content of ``log.json``."""

    log_id: str
    buckets: int
    layout: int


def read_identity(location: LogLocation) -> LogIdentity:
    """The content of ``log.json``. Raises NotFound for a missing log or another one than the table's, Corrupt."""
    path = f"{location.address}/log.json"
    try:
        values = orjson.loads(storage_of(location).read(path))
        known = LogIdentity(log_id=str(values["log_id"]), buckets=int(values["buckets"]), layout=int(values["layout"]))
    except NotFound:
        raise NotFound(
            f"the log in '{location.address}' is missing: it was deleted. The rows are in the files; recreate the "
            "table to write to a log again"
        ) from None
    except (ValueError, TypeError, KeyError, OverflowError) as why:
        raise Corrupt(f"'{path}' is damaged or not a log: recreate the table to write to a log again") from why
    if not _LOG_ID.fullmatch(known["log_id"]):
        raise Corrupt(f"'{path}' names the log '{known['log_id']}', which is no id: recreate the table")
    if known["layout"] != 1:
        raise Corrupt(f"the log in '{location.address}' has layout {known['layout']}: upgrade lakelog")
    if location.log_id and known["log_id"] != location.log_id:
        raise NotFound(
            f"the log in '{location.address}' is not the one that was created with the table: another log replaced "
            "it. The rows are in the files; recreate the table to write to a log again"
        )
    return known


class SegmentChain:
    """The segments of one log, as one client knows them. Raises as ``LogSystem.check``."""

    def __init__(self, location: LogLocation) -> None:
        self._location, identity = location, read_identity(location)
        if identity["buckets"] != location.buckets:
            raise NotFound(
                f"the log in '{location.address}' has {identity['buckets']} log partitions, not {location.buckets}"
            )
        self._root = f"{location.address}/{identity['log_id']}"
        self._io = storage_of(location).within(self._root)
        self._segments = Journal(self._io, f"{self._root}/segments", digits=20)
        self._floors = Journal(self._io, f"{self._root}/floors", digits=20)
        self._floor = Floor(0, (0,) * location.buckets)
        self._footers: LRUCache[int, Segment] = LRUCache(_HELD_FOOTERS)
        self._small: LRUCache[int, pa.Buffer] = LRUCache(_HELD_SMALL)
        self._ahead, self._floor_read = -1, LONG_AGO
        self._is_unsure = False
        """True if footers were read after the floor, so that one may be of a number that was created again."""
        self._confirmed_s = self._deleted_s = float("-inf")
        self._newest = self._hint()
        _ = self.floor  # without a hint, segment 0 may be absent because it expired

    @property
    def floor(self) -> Floor:
        """The floor, with one request if it has not moved since the last call. Raises Unavailable."""
        begun = Moment.now()
        while True:
            data, path = self._floors.read(self._floor.number), self._floors.path(self._floor.number)
            if data is None:
                self._floor_read = begun
                self._is_unsure = False
                return self._floor
            try:
                values = orjson.loads(data)
                moved = self._checked_floor(values["number"], values["offsets"])
            except (ValueError, TypeError, KeyError) as why:
                raise damaged(path) from why
            if moved.number <= self._floor.number:
                raise damaged(path)
            self._floor = moved

    @property
    def ends(self) -> tuple[int, ...]:
        """The end offsets of all buckets, with one request if there is no new segment. Raises Unavailable."""
        return self.confirmed(lambda: self.starts(self.newest() + 1))

    @property
    def known_floor(self) -> Floor:
        """The floor as of its last read."""
        return self._floor

    @property
    def known(self) -> int:
        """The newest segment that this client knows, without a request; the floor's minus one if it knows none."""
        return max(self._newest, self._ahead, self._floor.number - 1)

    def advance(self) -> bool:
        """Returns whether there is a segment after the known ones, with one request.

        It counts only after ``confirm``.
        """
        number = self.known + 1
        try:
            self.footer(number)
        except NotFound:
            return False
        self._ahead = number
        return True

    def confirm(self, is_gone: bool = False) -> int:
        """The number of the floor, with one request if it was not read a moment ago or if a segment ``is_gone``.

        Called after the known segments were read. Those below the floor do not count: a suspended writer may have
        created their numbers again.
        """
        floor = (self._floor if self._floor_read.is_within(1000 * _TRUSTED_S) and not is_gone else self.floor).number
        if self._ahead >= floor:
            self._newest = max(self._newest, self._ahead)
        self._ahead, self._confirmed_s = -1, monotonic_s()
        return floor

    def newest(self) -> int:
        """The number of the newest segment; the floor's minus one if there is none."""
        while True:
            before, newest = self._floor.number, self._segments.end(max(self._newest, self._floor.number - 1))
            self._confirmed_s = monotonic_s()
            is_new, self._newest = newest != self._newest, newest
            if not is_new and self._floor_read.is_within(DELETE_AFTER_MS / 2):  # else the next ones may be deleted
                return newest
            if is_new:
                with suppress(NotFound, Corrupt):  # for those who need it; read before the floor, which so covers it
                    self.footer(newest)
            # a suspended writer may have created a segment below the floor again
            if newest >= self.floor.number or (not is_new and self._floor.number == before):
                return newest

    @property
    def is_recent(self) -> bool:
        """True if the known segments were the newest ones a moment ago, so that the next number is worth a try."""
        return self._ahead < 0 and monotonic_s() - self._confirmed_s < _RECENT_S

    def check(self) -> None:
        """Reads the identity of the log and its floor again. Called at times by clients, also while nothing comes."""
        read_identity(self._location)
        newest = self._newest
        if newest < self.floor.number:
            return
        known, found = self._footers.get(newest), None
        with suppress(NotFound), self._io.open_input(self.path(newest)) as file:
            found = read_footer(file, self.path(newest))
        if newest < self.floor.number or (found is not None and known in (None, found)):
            return
        raise NotFound(
            f"the log in '{self._location.address}' ends before the segment '{self.path(newest)}', which was in it, or "
            "has another one of that name: an older copy replaced it. Restore the newer log, or recreate the table to "
            "write to a log again"
        )

    def footer(self, number: int) -> Segment:
        """The footer of a segment. Raises NotFound, Corrupt, Unavailable."""
        footer = self._footers.get(number)
        if footer is None:
            with self.opened(number) as file:
                footer = read_footer(file, self.path(number))
                if len(footer.ends) != len(self._floor.offsets):
                    raise damaged(self.path(number))
                self._footers[number], self._is_unsure = footer, True
                if file.size() <= _SMALL:
                    file.seek(0)
                    self._small[number] = pa.py_buffer(file.read())
        return footer

    def starts(self, number: int) -> tuple[int, ...]:
        """The end offsets of all buckets before a segment."""
        return self._floor.offsets if number <= self._floor.number else self.footer(number - 1).ends

    def first(self, matches: Callable[[Segment], bool]) -> int:
        """The number of the first segment that matches, as all later ones do; that after the newest one if none."""

        def found() -> int:
            newest = self.newest()  # which may move the floor
            numbers = range(self._floor.number, newest + 1)
            return numbers.start + bisect_left(numbers, True, key=lambda number: matches(self.footer(number)))

        return self.held(found)

    def held(self, work: Callable[[], T]) -> T:
        """The result of a read, which is repeated if a segment expired meanwhile, and so is not found."""
        while True:
            before = self._floor.number
            try:
                return work()
            except NotFound:
                if self.floor.number == before:
                    raise

    def confirmed(self, work: Callable[[], T]) -> T:
        """The result of ``held``, which is also repeated if a segment expired before its footer was read.

        A suspended writer may have created its number again. Asks for the floor if footers were read long after it.
        """
        while True:
            before = self._floor.number
            result = self.held(work)
            is_sure = not self._is_unsure or self._floor_read.is_within(1000 * _TRUSTED_S)
            if (self._floor if is_sure else self.floor).number == before:
                return result

    def opened(self, number: int) -> pa.NativeFile:
        """A segment, which the caller closes. Raises NotFound, Unavailable."""
        file = self._small.get(number)
        return self._io.open_input(self.path(number)) if file is None else pa.BufferReader(file)

    def create(self, number: int, data: bytes, segment: Segment) -> bool:
        """Creates a segment; False if it exists or its number has expired. Raises CommitUnknown, TableReplaced."""
        if not self._segments.create(number, data):
            return False
        if number < self.floor.number:
            return False
        self._newest, self._confirmed_s = number, monotonic_s()
        self._footers[number] = segment
        if number % HINT_EVERY == 0:
            self._write_hint()
        return True

    def expire(self, cutoff_ms: int, floors: Mapping[int, int] | None = None) -> None:
        """Moves the floor behind the segments before ``cutoff_ms`` whose records all are below ``floors``.

        A segment is as old as its time and its file say, the younger of both. A time in the future is a wrong clock's,
        and the file counts.
        The newest segment stays. A call that is ``DELETE_AFTER_MS`` after a move deletes the segments below that floor,
        unless this client has deleted some within that time. A suspended appender that then creates one of them again
        reads the floor before it acknowledges the append.
        """
        floor, newest = self.floor, self.newest()

        number = self._first_retained(cutoff_ms, floors, newest)
        if number > floor.number:
            moved = orjson.dumps({"number": number, "offsets": self.held(lambda: self.starts(number))})
            with suppress(CommitUnknown):  # the floor is read again
                self._floors.create(floor.number, moved)
            self._write_hint()
        if monotonic_s() - self._deleted_s < DELETE_AFTER_MS / 1000:
            return  # the listings grow with the age of the log
        self._deleted_s = monotonic_s()
        kept = self._long_expired(self.stored_now_ms())
        if kept:
            self._segments.delete_below(kept)

    def _first_retained(self, cutoff_ms: int, floors: Mapping[int, int] | None, newest: int) -> int:
        """The number of the first segment that ``expire`` keeps."""
        number = min(self.first(lambda segment: _is_retained(segment, cutoff_ms, floors)), newest)
        floor = self._floor.number
        if number <= floor:
            if floor >= newest or self.held(lambda: self.footer(floor)).timestamp_ms <= now_ms():
                return number
            number = min(self.first(lambda segment: _is_needed(segment, floors)), newest)
        files = self._segments.files()
        return next((n for n in range(floor, number) if n in files and files[n].mtime_ms >= cutoff_ms), number)

    def stored_now_ms(self) -> int:
        """The present time of the log's storage. Raises Unavailable."""
        return storage_now_ms(self._io, self._root)

    def is_expirable(self, cutoff_ms: int, floors: Mapping[int, int] | None = None) -> bool:
        """True if ``expire`` would move the floor, or delete segments below it."""
        floor = self.floor.number
        if floor < self.newest() and not _is_retained(self.held(lambda: self.footer(floor)), cutoff_ms, floors):
            return True
        kept = self._long_expired(now_ms()) if floor else 0
        return kept > 0 and self._segments.has(kept - 1)

    def _long_expired(self, present_ms: int) -> int:
        """The number below which no reader relies on a segment any more: a floor that was made long ago."""
        known, long_ago = self.floor.number, present_ms - DELETE_AFTER_MS
        files = self._floors.files()
        moves = pairwise((*files, known))  # the name of a floor's file is the floor before it
        return max((new for old, new in moves if files[old].mtime_ms <= long_ago), default=0)

    def path(self, number: int) -> str:
        """The path of a segment."""
        return self._segments.path(number)

    def _write_hint(self) -> None:
        with suppress(LakelogError):  # only a way to save requests
            self._io.write_hint(f"{self._root}/hint", orjson.dumps(self._hinted()))

    def _hinted(self) -> dict[str, object]:
        floor = self.floor
        return {"newest": max(self._newest, floor.number - 1), "floor": floor.number, "offsets": floor.offsets}

    def _hint(self) -> int:
        """The newest segment of the hint, whose floor becomes that of the client."""
        try:
            values = orjson.loads(self._io.read(f"{self._root}/hint"))
            newest, floor = int(values["newest"]), self._checked_floor(values["floor"], values["offsets"])
            if not floor.number <= newest or not self._segments.has(newest):
                return -1
        except (LakelogError, ValueError, TypeError, KeyError):  # only a way to save requests
            return -1
        self._floor = floor
        return newest

    def _checked_floor(self, number: object, offsets: list[object]) -> Floor:
        """Raises ValueError, TypeError."""
        floor = Floor(int(str(number)), tuple(int(str(offset)) for offset in offsets))
        is_in_range = all(0 <= n <= LARGEST_OFFSET for n in (floor.number, *floor.offsets))
        if len(floor.offsets) != len(self._floor.offsets) or not is_in_range:
            raise ValueError(f"{floor} is no floor of {len(self._floor.offsets)} buckets")
        return floor


def _is_retained(segment: Segment, cutoff_ms: int, floors: Mapping[int, int] | None) -> bool:
    return segment.timestamp_ms >= cutoff_ms or _is_needed(segment, floors)


def _is_needed(segment: Segment, floors: Mapping[int, int] | None) -> bool:
    return floors is not None and any(end > floors.get(b, 0) for b, end in enumerate(segment.ends))
