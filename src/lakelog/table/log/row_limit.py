"""Ends of reads of the log by their number of rows, which only a packed record itself tells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import Corrupt, OffsetExpired
from lakelog.table.log.scan import LogScan

_FIRST_ROWS: Final = 100_000
"""Number of rows that the first records hold that are read; if these are large, the others count as full."""
_MOST_RECORDS: Final = 10_000
"""Maximum number of packed records before an end, for whose count they are read."""


@dataclass(frozen=True)
class RowLimit:
    """Finds the records of a bucket that hold at most some number of rows."""

    scan: LogScan

    def end(self, bucket: int, start: int, end: int, rows: int) -> int:
        """The offset after the first records of start ≤ offset < end with at most ``rows`` rows, or one record.

        Small packed records are read and counted. Raises Unavailable.
        """
        form, reader = self.scan.form, self.scan.reader
        if form.changes_per_record > 1:
            with contextlib.suppress(OffsetExpired):
                return self._counted_end(bucket, max(start, reader.first_offsets([bucket])[bucket]), end, rows)
        return reader.skip(bucket, start, end, form.records_of(rows))

    def _counted_end(self, bucket: int, start: int, end: int, rows: int) -> int:
        form, at, read = self.scan.form, start, 0
        for records in self._chunks(bucket, start, end):
            counts = self._counts(records)
            fitting = int(np.searchsorted(np.cumsum(counts), rows, side="right"))
            if fitting < len(counts):
                fitting = max(fitting, 1 if at == start else 0)
                return at if not fitting else _after(records, fitting)
            at, rows, read = _after(records, len(counts)), rows - int(counts.sum()), read + len(counts)
            if counts.mean() > form.changes_per_record / 4:
                return self.scan.reader.skip(bucket, at, end, rows // form.changes_per_record)
            if read >= _MOST_RECORDS:
                return at
        return end

    def _chunks(self, bucket: int, start: int, end: int) -> Iterator[pa.Table]:
        first = self.scan.reader.read(bucket, start, end, self.scan.records_of(_FIRST_ROWS))
        if first.num_rows:
            yield first
            yield from self.scan.records_between(bucket, _after(first, first.num_rows), end)

    def _counts(self, records: pa.Table) -> np.ndarray:
        """The number of rows of each record; all count as full if one cannot be read."""
        values = records.column("value").combine_chunks()
        counts = np.zeros(len(values), np.int64)
        try:
            counts[values.is_valid().to_numpy(zero_copy_only=False)] = self.scan.form.row_counts(values.drop_null())
        except Corrupt:
            counts[:] = self.scan.form.changes_per_record
        return counts


def _after(records: pa.Table, count: int) -> int:
    """The offset after the first records."""
    offset: int = records.column("offset")[count - 1].as_py()
    return offset + 1
