"""Reads of an embedded log, from any offset; waits by polling."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakelog.errors import Corrupt, NotFound
from lakelog.io.clock import monotonic_s, now_ms, sleep
from lakelog.io.collector import collector_paused
from lakelog.logstore.base import LARGEST_OFFSET, RECORDS_SCHEMA, LogLocation, LogReader
from lakelog.logstore.embedded.file import EmbeddedFile, translated_errors
from lakelog.logstore.embedded.layout import trimmed_to
from lakelog.logstore.local_log import expired, expiry_of
from lakelog.logstore.record_batch.batch import RecordBatch, parse_batches
from lakelog.logstore.record_batch.decoder import READ_BYTES, decode, unpacked

_POLL_S = 0.001
_SOON_S, _POLL_SOON_S = 0.1, 0.0002
"""Seconds after a record in which the next one is expected, and polls are frequent."""

_BATCHES = """
select first, count, data from batches where bucket = :bucket and first < :end and first >= coalesce(
    (select max(first) from batches where bucket = :bucket and first <= :start), 0) order by first
"""
_MARK = """
select first, substr(data, 18, 4) from batches where bucket = ? and first < ? order by first desc limit 1
"""
"""The batch before an offset; the bytes are its checksum."""
_ROWS = """
select "offset", ts, key, value, header from records_1 where bucket = :bucket and "offset" >= :start
    and "offset" < :end order by "offset" limit :limit
"""


class EmbeddedReader(LogReader):
    """Reads by offset; polls the file's change counter every millisecond, and more often after a record."""

    def __init__(self, location: LogLocation) -> None:
        self._location, self._file = location, EmbeddedFile(location)
        self._database = self._file.database
        self._rest: tuple[int, int, pa.Table] | None = None
        self._busy_until_s = 0.0

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        self._file.check()
        with translated_errors(self._location):
            end = LARGEST_OFFSET if end is None else end
            parts = self._parts(bucket, start, end, max_records) if start < end else []
            if not parts or _offset(parts[0], 0) > start:
                self._check_start(bucket, start)
            self._file.check_owner()
        return pa.concat_tables(parts) if parts else RECORDS_SCHEMA.empty_table()

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
                        self._busy_until_s = monotonic_s() + _SOON_S
                        return
            at = monotonic_s()
            if at >= end:
                return
            sleep(_POLL_SOON_S if at < self._busy_until_s else _POLL_S)

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return self._file.ends("next", buckets)

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return self._file.ends("trimmed", buckets)

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        offsets = self.end_offsets()
        tables = [("batches", "first"), *([("records_1", '"offset"')] if self._file.has_rows else [])]
        with translated_errors(self._location):
            for bucket in offsets:
                for table, first in tables:  # rows are older than batches
                    row = self._database.execute(
                        f"select {first} from {table} where bucket = ? and ts >= ? order by {first} limit 1",
                        (bucket, timestamp_ms),
                    ).fetchone()
                    if row is not None:
                        offsets[bucket] = row[0]
        return offsets

    def mark(self, bucket: int, offset: int) -> str:
        self._file.check()
        with translated_errors(self._location):
            row = self._database.execute(_MARK, (bucket, offset)).fetchone()
        return "" if row is None else f"{row[0]}-{row[1].hex()}"

    def is_expirable(self, floors: Mapping[int, int], late_ms: int) -> bool:
        before_ms, needed = expiry_of(self._location, floors, now_ms() - late_ms)
        with translated_errors(self._location):
            return bool(trimmed_to(self._database, self._file.has_rows, before_ms, needed))

    @property
    def is_stale(self) -> bool:
        return self._file.is_stale

    def close(self) -> None:
        self._file.close()

    def _parts(self, bucket: int, start: int, end: int, limit: int) -> list[pa.Table]:
        """At most ``limit`` records with start ≤ offset < end, in non-empty parts."""
        found: list[pa.Table] = []
        if self._rest is not None and self._rest[:2] == (bucket, start):
            found.append(self._rest[2])
        elif self._file.has_rows:
            found += self._rows(bucket, start, end, limit)
        here = _offset(found[-1], -1) + 1 if found else start
        batches = self._batches(bucket, here, end, limit - sum(part.num_rows for part in found))
        # the last one by itself: what is left of it is kept for the next read
        found += [decode(some) for some in (batches[:-1], batches[-1:]) if some]
        parts, self._rest = [], None
        for part in found:
            first, behind = np.searchsorted(part.column("offset").to_numpy(), [start, end])
            taken = part.slice(first, min(behind - first, limit))
            limit -= taken.num_rows
            if taken.num_rows:
                parts.append(taken)
            if parts and first + taken.num_rows < part.num_rows:
                self._rest = bucket, _offset(parts[-1], -1) + 1, part.slice(first + taken.num_rows)
                break
        return parts

    @collector_paused()
    def _rows(self, bucket: int, start: int, end: int, limit: int) -> list[pa.Table]:
        asked = {"bucket": bucket, "start": start, "end": end, "limit": limit}
        rows = self._database.execute(_ROWS, asked).fetchall()
        if not rows:
            return []
        columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), RECORDS_SCHEMA, strict=True)]
        return [pa.Table.from_arrays(columns, schema=RECORDS_SCHEMA)]

    def _batches(self, bucket: int, start: int, end: int, limit: int) -> list[RecordBatch]:
        """The batches with these records; the first and the last one may have others, too."""
        batches: list[RecordBatch] = []
        if start >= end or limit <= 0:
            return batches
        asked = {"bucket": bucket, "start": start, "end": end}
        size = 0
        with contextlib.closing(self._database.execute(_BATCHES, asked)) as rows:
            for first, count, data in rows:
                if first + count > start:
                    batches.append(unpacked(self._batch(first, count, data)))
                    limit -= first + count - max(first, start)
                    size += len(batches[-1].payload)
                if limit <= 0 or size >= READ_BYTES:
                    break
        return batches

    def _batch(self, first: int, count: int, data: bytes) -> RecordBatch:
        batches = list(parse_batches(data))
        if [batch.count for batch in batches] != [count]:
            raise Corrupt(
                f"the embedded log {self._location.address} is damaged: the batch at offset {first} should have "
                f"{count} records. The rows are in the files; recreate the table to write to a log again"
            )
        return replace(batches[0], base_offset=first)

    def _check_start(self, bucket: int, start: int) -> None:
        bounds = self._database.execute("select trimmed, next from ends where bucket = ?", (bucket,)).fetchone()
        if bounds is not None and start < bounds[0]:
            raise expired(bucket, start, bounds[0])
        if bounds is not None and start > bounds[1]:
            raise NotFound(
                f"offset {start} of bucket {bucket} is after the end of the embedded log "
                f"{self._location.address}, {bounds[1]}: an older copy replaced it, or the offset belongs to "
                f"another log"
            )


def _offset(records: pa.Table, number: int) -> int:
    """The offset of a record; -1 is the last one."""
    offset: int = records.column("offset")[number % records.num_rows].as_py()
    return offset
