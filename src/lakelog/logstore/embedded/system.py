"""The embedded log: one SQLite file in WAL mode, for all processes of one machine, without a server.

File layout (SQLite): ``meta(key, value)`` holds log id, machine, buckets; ``records(bucket, offset, ts, key, value,
header)`` with primary key (bucket, offset), stored in that order; ``ends(bucket, next, trimmed)`` the next offset and
the first retained one. With ``synchronous=FULL`` an acknowledged row survives a power loss. The measured cost is
negligible because a micro-batch is one transaction.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound, OffsetExpired
from lakelog.io.clock import monotonic_s, now_ms, sleep
from lakelog.io.collector import collector_held
from lakelog.io.machine import machine_identity
from lakelog.io.names import new_uuid
from lakelog.logstore.base import (
    RECORDS_SCHEMA,
    LogAppender,
    LogLocation,
    LogReader,
    LogServer,
    LogSystem,
    PendingAppend,
    Records,
)
from lakelog.logstore.embedded.file import EmbeddedFile, translated_errors
from lakelog.logstore.embedded.probe import probe

_POLL_S = 0.001
_TRIM_EVERY = 256
"""Appends between two checks for expired records."""

_TABLES = """
create table meta (key text primary key, value text not null) without rowid;
create table ends (bucket integer primary key, next integer not null, trimmed integer not null);
create table records (bucket integer, "offset" integer, ts integer not null, key blob, value blob, header blob,
    primary key (bucket, "offset")) without rowid;
"""


class EmbeddedLogSystem(LogSystem):
    """Logs in SQLite files."""

    def create(self, location: LogLocation) -> LogLocation:
        if os.path.exists(location.address):
            return self._adopt(location)
        made = replace(location, log_id=location.log_id or new_uuid(), machine=machine_identity())
        part = f"{location.address}.{new_uuid()}.tmp"
        with translated_errors(location):
            os.makedirs(os.path.dirname(location.address), exist_ok=True)
            with contextlib.closing(sqlite3.connect(part)) as database:
                # stored in the file, so that no later client needs the lock of this change
                database.execute("pragma journal_mode = wal")
                database.executescript(_TABLES)
                meta = {"log_id": made.log_id, "machine": made.machine, "buckets": str(made.buckets)}
                database.executemany("insert into meta values (?, ?)", meta.items())
                database.executemany("insert into ends values (?, 0, 0)", [(b,) for b in range(made.buckets)])
                database.commit()
            try:
                os.link(part, location.address)
            except FileExistsError:
                return self._adopt(location)
            finally:
                os.unlink(part)
        return made

    def set_retention(self, location: LogLocation) -> None:
        """Does nothing, because appenders trim by the retention of their location."""

    def drop(self, location: LogLocation) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(location.address + suffix)

    def check(self, location: LogLocation, spread: bool = False) -> None:
        if spread:
            raise InvalidRequest(
                "an embedded log works on one machine only, and this Spark uses several machines: create the table "
                "with 'log-store.address' = '<kafka bootstrap servers>'"
            )
        EmbeddedFile(location).close()

    def probe(self, location: LogLocation) -> LogServer:
        return probe(self, location)

    def appender(self, location: LogLocation) -> LogAppender:
        return EmbeddedAppender(location)

    def reader(self, location: LogLocation) -> LogReader:
        return EmbeddedReader(location)

    def _adopt(self, location: LogLocation) -> LogLocation:
        with translated_errors(location), contextlib.closing(sqlite3.connect(location.address)) as database:
            meta = dict(database.execute("select key, value from meta"))
            used = database.execute("select count(*) from ends where next > 0").fetchone()[0]
        if used or int(meta["buckets"]) != location.buckets:
            raise AlreadyExists(
                f"{location.address} is the embedded log of another table ({meta['buckets']} buckets): "
                f"choose another 'log-store.address'"
            )
        return replace(location, log_id=meta["log_id"], machine=meta["machine"])


class _Known(PendingAppend):
    def __init__(self, first: int, count: int) -> None:
        self.end = first + count
        self._offsets = pa.array(np.arange(first, first + count, dtype=np.int64))

    @property
    def entries(self) -> int:
        return len(self._offsets)

    def offsets(self) -> pa.Int64Array:
        return self._offsets


class EmbeddedAppender(LogAppender):
    """Each append is one transaction, durable and visible when ``append`` returns."""

    def __init__(self, location: LogLocation) -> None:
        self._location, self._file = location, EmbeddedFile(location)
        self._database = self._file.database
        self._appends = 0

    def append(self, bucket: int, records: Records) -> PendingAppend:
        return self.append_all([(bucket, records)])[0]

    def append_all(self, parts: Sequence[tuple[int, Records]]) -> list[PendingAppend]:
        now = now_ms()
        with translated_errors(self._location):
            self._database.execute("begin immediate")
            try:
                made = [self._insert(bucket, records, now) for bucket, records in parts]
                self._trim(now)
                self._file.check()
                self._database.execute("commit")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("rollback")
                raise
        for (bucket, _), appended in zip(parts, made, strict=True):
            self._file.check_end(bucket, appended.end)
        return [*made]

    def _insert(self, bucket: int, records: Records, now: int) -> _Known:
        count = len(records)
        found = self._database.execute("select next from ends where bucket = ?", (bucket,)).fetchone()
        if found is None:
            raise NotFound(f"the embedded log {self._location.address} has no bucket {bucket}")
        first: int = found[0]
        self._file.check_end(bucket, first, is_committed=False)
        headers = [records.headers] * count if isinstance(records.headers, bytes) else records.headers
        keys, values = records.keys.to_pylist(), records.values.to_pylist()
        rows = zip([bucket] * count, range(first, first + count), [now] * count, keys, values, headers, strict=True)
        self._database.executemany("insert into records values (?, ?, ?, ?, ?, ?)", rows)
        self._database.execute("update ends set next = ? where bucket = ?", (first + count, bucket))
        return _Known(first, count)

    def flush(self) -> None:
        """Does nothing, because every append is durable."""

    @property
    def is_stale(self) -> bool:
        return self._file.is_stale

    def end_offsets(self) -> dict[int, int]:
        return _ends(self._file, self._location, "next")

    def close(self) -> None:
        self._file.close()

    def _trim(self, now: int) -> None:
        self._appends += 1
        retention = self._location.retention_ms
        if retention is None or self._appends % _TRIM_EVERY:
            return
        for bucket, trimmed in self._database.execute("select bucket, trimmed from ends").fetchall():
            kept = self._database.execute(
                'select "offset" from records where bucket = ? and "offset" >= ? and ts >= ? order by "offset" limit 1',
                (bucket, trimmed, now - retention),
            ).fetchone()
            if kept is not None and kept[0] > trimmed:
                self._database.execute('delete from records where bucket = ? and "offset" < ?', (bucket, kept[0]))
                self._database.execute("update ends set trimmed = ? where bucket = ?", (kept[0], bucket))


class EmbeddedReader(LogReader):
    """Reads by primary key; waits by polling the file's change counter every millisecond."""

    def __init__(self, location: LogLocation) -> None:
        self._location, self._file = location, EmbeddedFile(location)
        self._database = self._file.database

    @collector_held()
    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        limit = max_records if end is None else max(0, min(max_records, end - start))
        self._file.check()
        with translated_errors(self._location):
            rows = self._database.execute(
                'select "offset", ts, key, value, header from records where bucket = ? and "offset" >= ? '
                'order by "offset" limit ?',
                (bucket, start, limit),
            ).fetchall()
            if not rows or rows[0][0] > start:
                held = self._database.execute("select trimmed, next from ends where bucket = ?", (bucket,)).fetchone()
                if held is not None and start < held[0]:
                    raise OffsetExpired(
                        f"offset {start} of bucket {bucket} is no longer in the log; the first offset is {held[0]}. "
                        "Start at 'earliest', or read the files ('read.mode'='file'), which have all rows"
                    )
                if held is not None and start > held[1]:
                    raise NotFound(
                        f"offset {start} of bucket {bucket} is after the end of the embedded log "
                        f"{self._location.address}, {held[1]}: an older copy replaced it, or the offset belongs to "
                        "another log"
                    )
        if not rows:
            return RECORDS_SCHEMA.empty_table()
        columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), RECORDS_SCHEMA, strict=True)]
        return pa.Table.from_arrays(columns, schema=RECORDS_SCHEMA)

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        end = monotonic_s() + timeout_s
        version = None
        while True:
            self._file.check()
            with translated_errors(self._location):
                now = self._database.execute("pragma data_version").fetchone()[0]
                if now != version:
                    version = now
                    ends = self.end_offsets(list(positions))
                    if any(ends[b] > o for b, o in positions.items()):
                        return
            if monotonic_s() >= end:
                return
            sleep(_POLL_S)

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return self._ends("next", buckets)

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return self._ends("trimmed", buckets)

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        found = self.end_offsets()
        with translated_errors(self._location):
            for bucket in found:
                row = self._database.execute(
                    'select "offset" from records where bucket = ? and ts >= ? order by "offset" limit 1',
                    (bucket, timestamp_ms),
                ).fetchone()
                if row is not None:
                    found[bucket] = row[0]
        return found

    @property
    def is_stale(self) -> bool:
        return self._file.is_stale

    def close(self) -> None:
        self._file.close()

    def _ends(self, column: str, buckets: Sequence[int] | None) -> dict[int, int]:
        found = _ends(self._file, self._location, column)
        return found if buckets is None else {b: found[b] for b in buckets}


def _ends(file: EmbeddedFile, location: LogLocation, column: str) -> dict[int, int]:
    file.check()
    with translated_errors(location):
        found = dict(file.database.execute(f"select bucket, {column} from ends order by bucket").fetchall())
    if column == "next":
        for bucket, end in found.items():
            file.check_end(bucket, end)
    return found
