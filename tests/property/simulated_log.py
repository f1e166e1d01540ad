"""The log store in memory, a list of records per bucket; appends yield after each record and may fail in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa
from simulated_process import Scheduler
from simulated_storage import SimulatedIO

from lakelog.errors import AlreadyExists, NotFound, Unavailable
from lakelog.io.names import new_uuid
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogLocation, LogReader, PendingAppend, Records
from lakelog.logstore.files.segment import read_batch, read_footer
from lakelog.logstore.files.system import FilesLogSystem
from lakelog.logstore.record_batch.decoder import decode

Record = tuple[int, bytes | None, bytes | None, bytes]
"""Time, key, value and header."""


@dataclass(eq=False)
class SimulatedLog:
    """The broker's records by bucket."""

    scheduler: Scheduler
    buckets: list[list[Record]] = field(default_factory=list)


@dataclass(eq=False)
class SimulatedLogs:
    """The registry of log systems, with all logs. A log in a file follows RENAME and DROP; a topic stays."""

    scheduler: Scheduler
    io: SimulatedIO
    logs: dict[str, SimulatedLog] = field(default_factory=dict)

    def create(self, system: str) -> _System | FilesLogSystem:
        """The log system of a name. The log in files is the real one, on the simulated storage."""
        return FilesLogSystem() if system == "files" else _System(self)

    def note_file(self, path: str, data: bytes) -> None:
        """Called for each file that is created: keeps the records of logs in files."""
        root, is_log, _ = path.partition("/lakelog/log/log.json")
        if is_log:
            found = orjson.loads(data)
            self.logs[found["log_id"]] = SimulatedLog(self.scheduler, [[] for _ in range(found["buckets"])])
        root, is_segment, _ = path.partition("/segments/")
        if is_segment:
            log, file = self.logs[root.rpartition("/")[2]], pa.BufferReader(data)
            segment = read_footer(file, path)
            for part in segment.parts:
                held = log.buckets[part.bucket]
                assert part.first == len(held), f"{path} begins at {part.first} behind {len(held)} records"
                rows = decode([read_batch(file, part, segment.timestamp_ms, path)]).drop("offset").to_pylist()
                held += [(r["timestamp_ms"], r["key"], r["value"], r["header"]) for r in rows]

    def at(self, location: LogLocation) -> SimulatedLog:
        """The log as its client sees it. Raises NotFound if it was deleted or replaced."""
        found = location.log_id
        if location.system == "embedded":
            found = self.io.peek(location.address).decode()
        if found != location.log_id:
            raise NotFound(f"{location.address} is another log now")
        return self.logs[found]


@dataclass(frozen=True)
class _System:
    all: SimulatedLogs

    def create(self, location: LogLocation, adopt: bool = False) -> LogLocation:
        scheduler, made = self.all.scheduler, new_uuid()
        log = SimulatedLog(scheduler, [[] for _ in range(location.buckets)])
        self.all.logs[made] = log
        if location.system == "embedded" and not self.all.io.create(location.address, made.encode()):
            made = self.all.io.read(location.address).decode()
            if any(self.all.logs[made].buckets):
                raise AlreadyExists(f"{location.address} is the log of another table")
        return replace(location, log_id=made)

    def drop(self, location: LogLocation) -> None:
        self.all.io.delete(location.address)

    def check(self, location: LogLocation) -> None:
        self.all.scheduler.pause("check the log")
        self.all.at(location)

    def appender(self, location: LogLocation) -> Appender:
        return Appender(self.all, location)

    def reader(self, location: LogLocation) -> Reader:
        return Reader(self.all, location)


class _Offsets(PendingAppend):
    def __init__(self, offsets: Sequence[int]) -> None:
        self._offsets = offsets

    @property
    def entries(self) -> int:
        return len(self._offsets)

    def offsets(self) -> pa.Int64Array:
        return pa.array(self._offsets, pa.int64())


class Appender(LogAppender):
    """An appender. A failed append is in the log once or not at all; all earlier ones are in it."""

    def __init__(self, logs: SimulatedLogs, location: LogLocation) -> None:
        self._logs, self._location = logs, location

    @property
    def _log(self) -> SimulatedLog:
        return self._logs.at(self._location)

    def append(self, bucket: int, records: Records) -> PendingAppend:
        scheduler, offsets = self._logs.scheduler, list[int]()
        headers: Sequence[bytes] = (
            [records.headers] * len(records) if isinstance(records.headers, bytes) else records.headers
        )
        for key, value, header in zip(records.keys.to_pylist(), records.values.to_pylist(), headers, strict=True):
            scheduler.pause()
            held = self._log.buckets[bucket]
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
        self._logs.scheduler.pause()

    def end_offsets(self) -> dict[int, int]:
        return {bucket: len(held) for bucket, held in enumerate(self._log.buckets)}

    def close(self) -> None: ...


class Reader(LogReader):
    """A reader; it sees appended records immediately."""

    def __init__(self, logs: SimulatedLogs, location: LogLocation) -> None:
        self._logs, self._location = logs, location

    @property
    def _log(self) -> SimulatedLog:
        self._logs.scheduler.pause()
        return self._logs.at(self._location)

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        held = self._log.buckets[bucket]
        stop = min(len(held) if end is None else end, len(held), start + max_records)
        return records_of(held[start:stop], start)

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
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
        self._logs.scheduler.pause()

    def close(self) -> None: ...


def records_of(part: Sequence[Record], start: int) -> pa.Table:
    """Consecutive records from an offset, as a reader of the log returns them."""
    columns: Any = zip(*part, strict=True) if part else ([], [], [], [])
    times, keys, values, headers = columns
    arrays = [range(start, start + len(part)), times, keys, values, headers]
    typed = [pa.array(a, f.type) for a, f in zip(arrays, RECORDS_SCHEMA, strict=True)]
    return pa.Table.from_arrays(typed, schema=RECORDS_SCHEMA)
