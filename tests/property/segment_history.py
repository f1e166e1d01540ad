"""What the clients of a log were told, and whether one log explains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

UNSENT, UNKNOWN, ACKNOWLEDGED = "not flushed", "unknown", "acknowledged"


@dataclass(eq=False)
class Appended:
    """A record: its bucket, the time of the storage before its flush began, and the outcome."""

    bucket: int
    begun_ms: int
    outcome: str = UNSENT


@dataclass(eq=False)
class History:
    """The places of all records that clients know, and what they must know by now.

    ``ends`` are the highest end offsets that any client was told. A later answer must not be lower. ``expiries`` are
    the cutoff and floors of each call.
    """

    buckets: int
    ends: list[int] = field(default_factory=list)
    appended: dict[bytes, Appended] = field(default_factory=dict)
    expiries: list[tuple[float, Mapping[int, int] | None]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _held: dict[tuple[int, int], bytes] = field(default_factory=dict)
    _places: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    _refused: list[tuple[str, int, int]] = field(default_factory=list)
    _starts: list[tuple[str, int, dict[int, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ends = [0] * self.buckets

    def new_record(self, bucket: int, now_ms: int) -> bytes:
        """The value of a record, which no other has."""
        value = b"%d" % len(self.appended)
        self.appended[value] = Appended(bucket, now_ms)
        return value

    def acknowledged(self, who: str, bucket: int, offsets: Iterable[int], values: Iterable[bytes]) -> None:
        """A writer was told these offsets."""
        for offset, value in zip(offsets, values, strict=True):
            self.appended[value].outcome = ACKNOWLEDGED
            self._place(f"{who} was told", bucket, offset, value)

    def read(self, who: str, bucket: int, start: int, offsets: list[int], values: list[bytes]) -> None:
        """A client read these records from an offset."""
        if offsets != list(range(start, start + len(offsets))):
            self.wrong.append(f"{who} read the offsets {offsets} of bucket {bucket} from {start}")
        for offset, value in zip(offsets, values, strict=True):
            self._place(f"{who} read", bucket, offset, value)

    def ended(self, who: str, least: list[int], found: Mapping[int, int]) -> None:
        """A client was told end offsets, which must be at least these."""
        for bucket, end in found.items():
            if end < least[bucket]:
                self.wrong.append(f"{who} was told that bucket {bucket} ends at {end}, below {least[bucket]}")
            self.ends[bucket] = max(self.ends[bucket], end)

    def refused(self, who: str, bucket: int, start: int) -> None:
        """A client was told that an offset has expired."""
        self._refused.append((who, bucket, start))

    def started(self, who: str, timestamp_ms: int, found: Mapping[int, int]) -> None:
        """A client was told these offsets of the first records from a time on."""
        self._starts.append((who, timestamp_ms, dict(found)))

    def check_times(self, first: Mapping[int, int], times: Mapping[int, list[int]]) -> None:
        """Compares the starts by time with the times of the records at rest. None may be passed over."""
        for who, timestamp_ms, starts in self._starts:
            for bucket, start in starts.items():
                passed = times[bucket][: max(0, start - first[bucket])]
                if start > first[bucket] + len(times[bucket]) or any(ms >= timestamp_ms for ms in passed):
                    self.wrong.append(f"{who} would pass over records of bucket {bucket} before offset {start}")

    def check_rest(self, first: Mapping[int, int], rows: Mapping[int, list[bytes]]) -> None:
        """Compares all that was told with the log at rest: its first offsets and its records."""
        there = Counter(value for values in rows.values() for value in values)
        self.wrong += [f"record {value!r} is in the log {n} times" for value, n in there.items() if n > 1]
        for value, record in self.appended.items():
            place = self._places.get(value)
            if record.outcome == UNSENT and value in there:
                self.wrong.append(f"record {value!r} is in the log, and was never flushed")
            elif record.outcome == ACKNOWLEDGED and place is not None and not there[value]:
                self._check_expired(value, record, place, first)
        for who, bucket, start in self._refused:
            if start >= first[bucket]:
                self.wrong.append(f"{who} was told that offset {start} of bucket {bucket} has expired, and it is there")

    def _check_expired(self, value: bytes, record: Appended, place: tuple[int, int], first: Mapping[int, int]) -> None:
        bucket, offset = place
        if offset >= first[bucket]:
            self.wrong.append(f"record {value!r} was acknowledged at {place} and is lost")
        elif not any(
            record.begun_ms < cutoff_ms and (floors is None or offset < floors.get(bucket, 0))
            for cutoff_ms, floors in self.expiries
        ):
            self.wrong.append(f"record {value!r} at {place} expired, and nobody asked for that")

    def _place(self, what: str, bucket: int, offset: int, value: bytes) -> None:
        record = self.appended.get(value)
        if record is None or record.bucket != bucket or record.outcome == UNSENT:
            self.wrong.append(f"{what} {value!r} at {bucket}:{offset}, where it does not belong")
        held = self._held.setdefault((bucket, offset), value)
        place = self._places.setdefault(value, (bucket, offset))
        if held != value:
            self.wrong.append(f"{what} {value!r} at {bucket}:{offset}, where others have {held!r}")
        elif place != (bucket, offset):
            self.wrong.append(f"{what} {value!r} at {bucket}:{offset}, and others have it at {place}")
        self.ends[bucket] = max(self.ends[bucket], offset + 1)
