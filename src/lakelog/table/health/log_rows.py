"""Counts the rows of a log that the files do not have: those that wait for the files, and those that only it will have.

Control records, corrections, and rows that corrections take back are none of them. The counts are exact for the first
100,000 records of a bucket that have to be read; the others count like the last ones of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import polars as pl
import pyarrow as pa

from lakelog.errors import Corrupt, OffsetExpired
from lakelog.logstore.protocol.header import CORRECTION, DATA, LOG_ONLY
from lakelog.table.log.committed_reader import last_offset
from lakelog.table.log.position import headers_of
from lakelog.table.log.scan import LogScan
from lakelog.table.model.attempt import BucketAppend
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.read.log_view import MOST_LAG, LogView

_MOST_READ: Final = 100_000
_FAR: Final = 10_000
"""Offsets before the newest seal in which open rows of another streaming writer are looked for."""

Chosen = Callable[[pl.DataFrame], pl.Series]
"""Headers and ``time`` of records → a mask of the wanted ones."""


@dataclass(frozen=True)
class BucketRows:
    """Rows of one bucket: ``waiting`` for the files, ``unowned`` ones among them, and ``log_only``.

    ``waiting_ms`` is the append time of the first row that waits.
    """

    waiting: int = 0
    unowned: int = 0
    log_only: int = 0
    waiting_ms: int | None = None


@dataclass
class _Tally:
    """The sum of a pass: rows, and the time of the first one."""

    rows: int = 0
    first_ms: int | None = None


class RowCounter:
    """Counts the rows of one table in a view of its log. Raises Unavailable, NotFound, Corrupt."""

    def __init__(self, table: DynamicTable, log_view: LogView) -> None:
        self._view, self._scan = log_view, LogScan(table)
        self._publishes = table.publishes  # all rows of such a log come from the files
        writers = log_view.writers.items()
        self._open = {name: w for name, w in writers if w.is_alive or w.is_dead}
        self._decided = {(r.writer, r.epoch, a.attempt) for r in log_view.epochs for a in r.attempts}

    def of(self, bucket: int) -> BucketRows:
        """The rows of a bucket. Reads nothing if no writer is at work and no row has been written to the log alone."""
        if self._publishes:
            return BucketRows()
        own = self._counted(bucket, self._start_of_writers(bucket), self._is_of_writer)
        unowned = self._counted(bucket, self._view.unowned.get(bucket), lambda heads: heads["writer"] == "")
        times = [tally.first_ms for tally in (own, unowned) if tally.first_ms is not None]
        waiting = own.rows + unowned.rows
        return BucketRows(waiting, unowned.rows, self._log_only(bucket), min(times, default=None))

    def after(self, bucket: int, position: int) -> int:
        """The changes after the position of a reader: rows, and corrections, which it gets as rows."""
        return self._counted(
            bucket, position, lambda heads: heads["kind"].is_in([DATA, CORRECTION]), (DATA, CORRECTION)
        ).rows

    def _start_of_writers(self, bucket: int) -> int | None:
        """The offset of the first row that a writer may have in no snapshot; None if there is no such writer."""
        applied = self._view.state.offsets.get(bucket, 0)
        starts = [
            part.first_offset for record in self._view.epochs for part in _appends(record) if part.bucket == bucket
        ]
        for writer in self._open.values():
            sealed = writer.sealed_up_to.get(bucket, 0)
            starts.append(sealed if writer.is_batch else max(sealed, applied - _FAR))
        return min(starts, default=None)

    def _is_of_writer(self, heads: pl.DataFrame) -> pl.Series:
        decided = pl.DataFrame(sorted(self._decided), _ATTEMPT, orient="row").with_columns(is_decided=True)
        ends = {name: writer.decided for name, writer in self._open.items()}
        joined = heads.join(decided, on=list(_ATTEMPT), how="left", maintain_order="left")
        newest = joined["writer"].replace_strict(ends, default=None, return_dtype=pl.Int64)
        waits = (joined["epoch"] > newest).fill_null(False) | joined["is_decided"].fill_null(False)
        return waits & ~joined["attempt"].str.starts_with(LOG_ONLY).fill_null(False)

    def _log_only(self, bucket: int) -> int:
        """The rows of decided epochs that no file will ever have, without those that corrections have taken back."""
        starts = [self._view.state.log_only.get(bucket)]
        for record in self._view.epochs:
            starts += [
                part.first_offset
                for attempt in record.attempts
                if attempt.attempt.startswith(LOG_ONLY)
                for part in attempt.appends
                if part.bucket == bucket
            ]
        start = min((one for one in starts if one is not None), default=None)
        is_only = pl.col("attempt").str.starts_with(LOG_ONLY)
        rows = self._counted(bucket, start, lambda heads: heads.select(is_only & (pl.col("kind") == DATA)).to_series())
        if not rows.rows:
            return 0
        back = pl.col("sign") < 0
        taken = self._counted(bucket, start, lambda heads: heads.select(is_only & back).to_series(), (CORRECTION,))
        return max(0, rows.rows - taken.rows)

    def _counted(self, bucket: int, start: int | None, chosen: Chosen, kinds: tuple[str, ...] = (DATA,)) -> _Tally:
        """The rows of the chosen records from an offset on; none for None."""
        scan, tally, end, records_read, share = self._scan, _Tally(), self._view.ends.get(bucket, 0), 0, 0.0
        read = 0 if start is None else max(start, self._view.firsts.get(bucket, 0))
        with suppress(OffsetExpired):
            for records in () if start is None else scan.reader.chunks(bucket, read, end, scan.most_records):
                heads = headers_of(records).with_columns(time=records.column("timestamp_ms").to_numpy())
                has_value = pl.Series(records.column("value").is_valid().to_numpy())  # tombstones are no rows
                is_chosen = (chosen(heads) & heads["kind"].is_in(list(kinds)) & has_value).fill_null(False)
                here = self._rows(records.filter(is_chosen.to_arrow()))
                if here and tally.first_ms is None:
                    tally.first_ms = int(heads["time"].filter(is_chosen)[0])
                tally.rows, share = tally.rows + here, here / records.num_rows
                records_read, read = records_read + records.num_rows, last_offset(records) + 1
                if records_read >= _MOST_READ or tally.rows >= _MOST_READ:
                    tally.rows += round(share * scan.reader.count(bucket, read, end, MOST_LAG))
                    break
        return tally

    def _rows(self, records: pa.Table) -> int:
        try:
            counts = self._scan.form.row_counts(records.column("value").combine_chunks())
        except Corrupt:  # a reader of the log names it
            return int(records.num_rows)
        return int(counts.sum())


_ATTEMPT: Final[Mapping[str, type[pl.DataType]]] = {"writer": pl.String, "epoch": pl.Int64, "attempt": pl.String}


def _appends(record: EpochRecord) -> Iterator[BucketAppend]:
    return (part for attempt in record.attempts if not attempt.attempt.startswith(LOG_ONLY) for part in attempt.appends)
