"""The log's rows that are in no snapshot or decided epoch, and the rule for its valid records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.logstore.protocol.header import CORRECTION, DATA, LOG_ONLY
from lakelog.paimon.rows.row_kind import NAMES, ROW_KIND_COLUMN
from lakelog.table.log.key_moves import first_of_updates
from lakelog.table.log.position import headers_of
from lakelog.table.log.scan import LogScan
from lakelog.table.model.attempt import KIND_COLUMN
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.log_view import LogView, check_not_expired

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LogTail:
    """The part of a log to read in addition to the files, and the rule for its valid records; picklable.

    ``starts`` and ``ends`` are offsets by bucket. ``decided`` has every writer that may be active, with its newest
    decided epoch (-1: none). The rows of later epochs are *open*, and stored only here. ``log_only`` are the buckets
    with rows of decided epochs that no file will ever have. In a table with a key (whose newest row wins in every table
    with a log), all records of such a bucket count. Only the order of the log relates them to others. ``unowned`` are
    the offsets from which rows without a writer count, because a follower has not written them to files yet.
    ``open_counts`` is false for a transactional read, which skips open rows.
    """

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    decided: Mapping[str, int] = field(default_factory=dict)
    log_only: frozenset[int] = frozenset()
    keyed: bool = True
    unowned: Mapping[int, int] = field(default_factory=dict)
    open_counts: bool = True

    @property
    def buckets(self) -> list[int]:
        """The buckets with records to check."""
        return [b for b, end in sorted(self.ends.items()) if self.starts.get(b, end) < end]

    def counting(self, bucket: int, records: pa.Table, taken_back: frozenset[int] = frozenset()) -> Mask:
        """A mask of the valid rows among records (RECORDS_SCHEMA, of one bucket).

        ``taken_back`` are the offsets of records that corrections have taken back (``taken_back``). Raises Corrupt for
        a record without a header that lakelog knows.
        """
        heads = headers_of(records)
        is_data, is_correction = heads["kind"] == DATA, heads["kind"] == CORRECTION
        has_value = pl.Series(records.column("value").is_valid().to_numpy())
        is_data &= has_value  # skip tombstones of other producers
        newest = heads["writer"].replace_strict(dict(self.decided), default=None, return_dtype=pl.Int64)
        undecided = (heads["epoch"] > newest).fill_null(False)
        if not self.open_counts:
            is_data, is_correction = is_data & ~undecided, is_correction & ~undecided
        is_open = is_data & undecided
        if self.keyed and bucket in self.log_only:
            return (is_data | is_correction).to_numpy()
        only = heads["attempt"].str.starts_with(LOG_ONLY)
        # With a key, a correction is a newer row of its key; without one, it cancels the other row.
        stays = is_data | is_correction if self.keyed else is_data & ~heads["offset"].is_in(list(taken_back))
        unowned = heads["writer"] == ""
        if bucket in self.unowned:
            is_open |= is_data & unowned & (heads["offset"] >= self.unowned[bucket])
        return (is_open | (only & stays)).to_numpy()


def taken_back(records: Iterator[pa.Table]) -> frozenset[int]:
    """The offsets of records whose corrections among these have a negative sum, for tables without a key."""
    counts: Counter[int] = Counter()
    for part in records:
        heads = headers_of(part).filter(pl.col("kind") == CORRECTION)
        for ref, sign in heads.group_by("ref").agg(pl.col("sign").sum()).iter_rows():
            counts[ref] += sign
    return frozenset(ref for ref, sign in counts.items() if sign < 0)


def counting_rows(table: DynamicTable, tail: LogTail, bucket: int) -> Iterator[pa.Table]:
    """The valid rows of a bucket, in order: table columns and the row kind (int8), chunk by chunk.

    Called by the reader of the rows, on executors too. For an update it returns only the new row, as the files store
    it, unless the old one has another key.
    """
    scan = LogScan(table)
    start, end = tail.starts[bucket], tail.ends[bucket]
    needs = not tail.keyed and bucket in tail.log_only
    retracted = taken_back(scan.records_between(bucket, start, end)) if needs else frozenset()
    for records in scan.records_between(bucket, start, end):
        counts = tail.counting(bucket, records, retracted)
        if counts.any():
            yield _numbered(scan.rows(records.filter(pa.array(counts)), bucket), table.schema.primary_keys)


def _numbered(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    replaced, _ = first_of_updates(rows, keys)
    kinds = rows.column(ROW_KIND_COLUMN).to_numpy()
    numbers = np.select([kinds == name for name in NAMES], range(len(NAMES))).astype(np.int8)
    rows = rows.drop_columns([ROW_KIND_COLUMN]).append_column(
        pa.field(KIND_COLUMN, pa.int8(), nullable=False), pa.array(numbers)
    )
    return rows.filter(pa.array(~replaced)) if replaced.any() else rows


def tail_of(table: DynamicTable, log_view: LogView) -> LogTail:
    """The tail of the log after the snapshot and the decided epochs of a view.

    Writers with an expired lease have no valid open rows, and a transactional read has none at all. Raises
    OffsetExpired if the log has lost records that no snapshot has, and ``scan.expired-offsets`` is ``error``.
    """
    open_counts = not LogScan(table).is_transactional
    writers = {name: w for name, w in log_view.writers.items() if w.is_alive or not open_counts}
    starts = log_view.starts(w.settled for w in writers.values())
    check_not_expired(table, log_view, (w.settled for w in writers.values()))
    decided = {name: w.decided for name, w in writers.items()}
    log_only = frozenset(log_view.state.log_only)
    return LogTail(starts, log_view.ends, decided, log_only, table.schema.is_keyed, log_view.unowned, open_counts)


def count_records(table: DynamicTable, tail: LogTail, most: int) -> int:
    """The number of records to check; counting stops at about ``most``."""
    scan, total = LogScan(table), 0
    for bucket in tail.buckets:
        if total < most:
            total += scan.reader.count(bucket, tail.starts[bucket], tail.ends[bucket], most)
    return total
