"""The log store in memory: one list of records a bucket; appends give way record by record and may fail half-way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from simulated_process import Scheduler

from lakelog.errors import Unavailable
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogReader, PendingAppend, Records

Record = tuple[int, bytes | None, bytes | None, bytes]
"""Time, key, value and header."""


@dataclass(eq=False)
class SimulatedLog:
    """What the broker holds, bucket by bucket."""

    scheduler: Scheduler
    buckets: list[list[Record]] = field(default_factory=list)

    def appender(self, location: object) -> Appender:
        """As a log system."""
        return Appender(self)

    def reader(self, location: object) -> Reader:
        """As a log system."""
        return Reader(self)

    def create(self, system: str) -> SimulatedLog:
        """As the registry of log systems: all of them are this one."""
        return self


class _Offsets(PendingAppend):
    def __init__(self, offsets: Sequence[int]) -> None:
        self._offsets = offsets

    @property
    def entries(self) -> int:
        return len(self._offsets)

    def offsets(self) -> pa.Int64Array:
        return pa.array(self._offsets, pa.int64())


class Appender(LogAppender):
    """Appends; an append that fails may have come to the log, and once or not at all, and those before it have."""

    def __init__(self, log: SimulatedLog) -> None:
        self._log = log

    def append(self, bucket: int, records: Records) -> PendingAppend:
        scheduler, held, offsets = self._log.scheduler, self._log.buckets[bucket], list[int]()
        headers: Sequence[bytes] = (
            [records.headers] * len(records) if isinstance(records.headers, bytes) else records.headers
        )
        for key, value, header in zip(records.keys.to_pylist(), records.values.to_pylist(), headers, strict=True):
            scheduler.pause()
            lost = scheduler.loses("append")
            if not lost or scheduler.dice.random() < 0.6:
                if scheduler.trace is not None:
                    scheduler.note(f"append {bucket}:{len(held)} {header.decode()} {(value or b'')[:90]!r}")
                offsets.append(len(held))
                held.append((scheduler.time_ns() // 1_000_000, key, value, header))
            if lost:
                raise Unavailable("the broker timed out; whether the record is in the log is unknown")
        return _Offsets(offsets)

    def flush(self) -> None:
        self._log.scheduler.pause()

    def end_offsets(self) -> dict[int, int]:
        return {bucket: len(held) for bucket, held in enumerate(self._log.buckets)}

    def close(self) -> None: ...


class Reader(LogReader):
    """Reads; all that is in the log can be read at once."""

    def __init__(self, log: SimulatedLog) -> None:
        self._log = log

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        self._log.scheduler.pause()
        held = self._log.buckets[bucket]
        stop = min(len(held) if end is None else end, len(held), start + max_records)
        return records_of(held[start:stop], start)

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        self._log.scheduler.pause()
        held = self._log.buckets
        return {b: len(held[b]) for b in (range(len(held)) if buckets is None else buckets)}

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return dict.fromkeys(range(len(self._log.buckets)) if buckets is None else buckets, 0)

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        found = {}
        for bucket, held in enumerate(self._log.buckets):
            found[bucket] = next((o for o, record in enumerate(held) if record[0] >= timestamp_ms), len(held))
        return found

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        self._log.scheduler.pause()

    def close(self) -> None: ...


def records_of(part: Sequence[Record], start: int) -> pa.Table:
    """Records that lie one after the other from an offset, as a reader of the log gives them."""
    columns: Any = zip(*part, strict=True) if part else ([], [], [], [])
    times, keys, values, headers = columns
    arrays = [range(start, start + len(part)), times, keys, values, headers]
    typed = [pa.array(a, f.type) for a, f in zip(arrays, RECORDS_SCHEMA, strict=True)]
    return pa.Table.from_arrays(typed, schema=RECORDS_SCHEMA)
