"""Rows of a task that wait for their runs: small ones inline, large ones as level-0 files (RFC 2, task)."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import LakelogError
from lakelog.logstore.base import PendingAppend
from lakelog.options.table import WRITE_BUFFER_SIZE
from lakelog.paimon.rows.row_kind import UPDATE_BEFORE
from lakelog.table.log.partitions import is_aligned
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN, StagedRun
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.runs.rebucketing import check_bucket_count
from lakelog.table.runs.runs import Numbering, by_partition, delete_runs, run_to_ipc, write_run_files
from lakelog.table.staging.job_files import JobFiles
from lakelog.table.staging.late_retractions import split_retractions
from lakelog.table.staging.row_check import check_seal, row_errors

INLINE_BYTES = 1024 * 1024
"""Size limit of one bucket's rows for the epoch record; larger ones become data files (RFC 2)."""
_INLINE_TOTAL = 64 * INLINE_BYTES
"""Inline limit, divided by the task's number: half a gigabyte at the driver for ten thousand tasks."""
_FULL_SHARES = 8
"""Number of first tasks with the same share, so that a micro-batch or small write makes one file per bucket."""
_THREADS = min(4, os.cpu_count() or 1)
"""Number of buckets whose rows are sorted and written in parallel."""


class StagedRows:
    """The rows of a task, by bucket until they are runs. The arguments are those of ``TaskWriter``."""

    def __init__(self, table: DynamicTable, lane: int, replaces: bool, job: JobFiles | None) -> None:
        self._table, self._replaces, self._job = table, replaces, job
        self._inline_share = _INLINE_TOTAL // max(lane + 1, _FULL_SHARES)
        self._buffer_limit = int(table.options.need(WRITE_BUFFER_SIZE))
        self._numbering = Numbering(table, is_aligned=is_aligned(table.schema))
        self._lock = threading.Lock()
        self._rows: dict[int, BucketRows] = {}
        self._runs: list[StagedRun] = []
        self._inlined: list[tuple[bytes, pa.Table]] = []

    @property
    def is_full(self) -> bool:
        """True if the rows exceed ``write-buffer-size``."""
        return sum(rows.bytes for rows in self._rows.values()) > self._buffer_limit

    def add(
        self,
        bucket: int,
        rows: pa.RecordBatch,
        kinds: np.ndarray,
        indices: np.ndarray,
        order: np.ndarray | LogOrder,
    ) -> None:
        """Keeps some rows of a batch for a bucket, with their order in the log or of arrival."""
        rows_of_bucket = self._rows.setdefault(bucket, BucketRows())
        is_whole = len(indices) == rows.num_rows
        gathered = order.rows if isinstance(order, LogOrder) else None
        part = rows if is_whole else gathered or rows.take(pa.array(indices))
        rows_of_bucket.batches.append(part)
        rows_of_bucket.kinds.append(kinds if is_whole else kinds[indices])
        rows_of_bucket.orders.append(order)
        rows_of_bucket.bytes += part.nbytes

    def spill(self) -> None:
        """Writes all rows as files. Called, as ``finish``, once the log has acknowledged them."""
        self._stage_all(inline_share=0)

    def finish(self) -> tuple[StagedRun, ...]:
        """The runs of all rows; their files belong to the caller from then on."""
        self._stage_all(self._inline_share)
        runs, self._runs = tuple(self._runs), []
        return runs

    def close(self) -> None:
        """Drops the rows, and deletes the files that ``finish`` has not returned."""
        self._rows.clear()
        with contextlib.suppress(LakelogError):  # orphan cleaning finds the remaining files
            delete_runs(self._table, self._runs)
        self._runs.clear()

    def _stage_all(self, inline_share: int) -> None:
        buckets, before = sorted(self._rows), len(self._runs)
        inline = _smallest({bucket: rows.bytes for bucket, rows in self._rows.items()}, inline_share)

        def stage(bucket: int) -> None:
            rows = self._rows.pop(bucket)
            with row_errors(self._table.name):
                self._stage(bucket, rows, bucket in inline, buckets)

        for bucket in sorted(inline):  # a micro-batch: starting threads would take longer
            stage(bucket)
        large = [bucket for bucket in buckets if bucket not in inline]
        if large:
            with ThreadPoolExecutor(min(_THREADS, len(large)), "staging") as threads:
                for _ in threads.map(stage, large):
                    pass
        if self._inlined:
            with row_errors(self._table.name):
                check_seal(self._inlined, self._table)
            self._inlined.clear()
        self._runs[before:] = sorted(self._runs[before:], key=lambda run: (run.bucket, run.partition))

    def _stage(self, bucket: int, rows: BucketRows, inline: bool, buckets: list[int]) -> None:
        parts = list(by_partition(rows.ordered(), self._table))
        if not self._replaces and self._table.log is None:  # with a log, the seal moves rows to the partition's buckets
            check_bucket_count(self._table, {partition for partition, _ in parts})
        for partition, rows_there in parts:
            part, alone = (rows_there, None) if self._replaces else split_retractions(rows_there, self._table.schema)
            if alone is not None:
                self._stage_inline(partition, bucket, alone, retractions=True)
            if inline and part.num_rows:
                self._stage_inline(partition, bucket, part)
            elif part.num_rows:
                # an overwrite finds its buckets empty
                lowest = pc.min(part.column(ORDER_COLUMN)).as_py()
                with self._lock:
                    delta = 0 if self._replaces else self._numbering.delta((partition, bucket), lowest, buckets)
                names = None if self._job is None else self._job.new_names()
                self._runs.append(write_run_files(self._table, partition, bucket, part, delta, self._replaces, names))

    def _stage_inline(self, partition: bytes, bucket: int, rows: pa.Table, retractions: bool = False) -> None:
        self._inlined.append((partition, rows))
        emits = self._table.emits_changelog and not self._replaces
        ipc, schema_id = run_to_ipc(rows), self._table.schema.id
        run = StagedRun(partition, bucket, rows.num_rows, ipc, schema_id=schema_id, emits_changelog=emits)
        self._runs.append(replace(run, retractions=retractions))


def _smallest(sizes: Mapping[int, int], share: int) -> frozenset[int]:
    """The buckets whose rows are sent inline: the smallest ones whose total is within the share."""
    chosen: set[int] = set()
    for bucket, size in sorted(sizes.items(), key=lambda item: item[1]):
        share -= size
        if size > INLINE_BYTES or share < 0:
            break
        chosen.add(bucket)
    return frozenset(chosen)


@dataclass
class BucketRows:
    """Rows of one bucket that are not yet staged."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    kinds: list[np.ndarray] = field(default_factory=list)
    orders: list[np.ndarray | LogOrder] = field(default_factory=list)
    bytes: int = 0

    def ordered(self) -> pa.Table:
        """The rows with their order and kind. Called after the log has acknowledged them."""
        table = pa.Table.from_batches(self.batches)
        orders = np.concatenate([o.resolve() if isinstance(o, LogOrder) else o for o in self.orders])
        kinds = np.concatenate(self.kinds)
        keep = _without_replaced(orders, kinds, np.cumsum([len(part) for part in self.kinds]))
        if len(keep) < len(kinds):
            table, orders, kinds = table.take(pa.array(keep)), orders[keep], kinds[keep]
        table = table.append_column(pa.field(ORDER_COLUMN, pa.int64(), nullable=False), pa.array(orders))
        return table.append_column(pa.field(KIND_COLUMN, pa.int8(), nullable=False), pa.array(kinds))


@dataclass
class LogOrder:
    """The order of rows that wait for their log offsets: by record, then by position in the record.

    ``rows`` are the rows themselves, if the log's format has gathered them.
    """

    pending: PendingAppend
    record_of_row: np.ndarray
    change_of_row: np.ndarray
    changes_per_record: int
    rows: pa.RecordBatch | None = None

    def take(self, indices: np.ndarray) -> LogOrder:
        """The order of some of the rows."""
        return LogOrder(self.pending, self.record_of_row[indices], self.change_of_row[indices], self.changes_per_record)

    def resolve(self) -> np.ndarray:
        ordered: np.ndarray = self.pending.orders(self.changes_per_record)[self.record_of_row] + self.change_of_row
        return ordered


def _without_replaced(orders: np.ndarray, kinds: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Indices of the rows to keep; a -U whose +U is in the same log record is redundant for the files.

    ``ends`` are those of parts that share no record, but may have equal orders.
    """
    same_record = np.zeros(len(orders), dtype=bool)
    same_record[:-1] = orders[:-1] == orders[1:]
    same_record[ends - 1] = False
    return np.flatnonzero(~((kinds == UPDATE_BEFORE) & same_record))
