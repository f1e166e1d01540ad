"""Appends to an embedded log: one transaction each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakelog.errors import NotFound
from lakelog.io.storage.storage_clock import touched_ms
from lakelog.logstore.base import LogAppender, LogLocation, PendingAppend, Records
from lakelog.logstore.embedded.file import EmbeddedFile, translated_errors
from lakelog.logstore.embedded.layout import date_future, newest_ms, trim
from lakelog.logstore.record_batch.batch import RecordBatch
from lakelog.logstore.record_batch.encoder import encode

_TRIM_EVERY = 256
"""Appends between two checks for expired records."""


class _Appended(PendingAppend):
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
        encoded = [(bucket, encode(records, 0)) for bucket, records in parts]
        with translated_errors(self._location):
            self._database.execute("begin immediate")
            try:
                self._file.claim()
                self._file.check()
                dated = max(touched_ms(self._location.address), newest_ms(self._database))
                made = [self._insert(bucket, batches, dated) for bucket, batches in encoded]
                self._trim()
                self._file.check()
                self._database.execute("commit")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("rollback")
                raise
        for (bucket, _), appended in zip(parts, made, strict=True):
            self._file.check_end(bucket, appended.end)
        return [*made]

    def _insert(self, bucket: int, batches: Sequence[RecordBatch], dated: int) -> _Appended:
        row = self._database.execute("select next from ends where bucket = ?", (bucket,)).fetchone()
        if row is None:
            raise NotFound(f"the embedded log {self._location.address} has no bucket {bucket}")
        first: int = row[0]
        self._file.check_end(bucket, first, is_committed=False)
        end = first
        for batch in batches:
            data = replace(batch, base_timestamp=dated, max_timestamp=dated).to_bytes()
            self._database.execute(
                "insert into batches (bucket, first, count, ts, data) values (?, ?, ?, ?, ?)",
                (bucket, end, batch.count, dated, data),
            )
            end += batch.count
        if end > first:
            self._database.execute("update ends set next = ? where bucket = ?", (end, bucket))
        return _Appended(first, end - first)

    def flush(self) -> None:
        """Does nothing, because every append is durable."""

    @property
    def is_stale(self) -> bool:
        return self._file.is_stale

    def end_offsets(self) -> dict[int, int]:
        return self._file.ends("next")

    def close(self) -> None:
        self._file.close()

    def _trim(self) -> None:
        self._appends += 1
        if self._location.retention_ms is not None and self._appends % _TRIM_EVERY == 0:
            now = touched_ms(self._location.address)
            date_future(self._database, now)
            trim(self._database, self._file.has_rows, now - self._location.retention_ms)
