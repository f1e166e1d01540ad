"""What runs in one task of one epoch: rows go to the log at once and are made ready for the files (RFC 2, task)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.io.names import new_attempt
from lakelog.logstore.base import LogAppender, PendingAppend
from lakelog.logstore.clients import appender_for
from lakelog.logstore.control import begin_record
from lakelog.logstore.formats import log_format
from lakelog.logstore.header import DATA, encode_header
from lakelog.options.log import DATA_FORMAT
from lakelog.options.table import WRITE_BUFFER_SIZE
from lakelog.spec.bucket import bucket_of_rows
from lakelog.spec.row_kind import UPDATE_BEFORE
from lakelog.table.attempt import KIND_COLUMN, ORDER_COLUMN, AttemptResult, BucketAppend, StagedRun
from lakelog.table.conform import conform
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.staging import by_partition, run_to_ipc, write_run_files

_INLINE_BYTES = 1024 * 1024
"""Rows of one bucket below this travel inside the epoch record; more become data files (RFC 2)."""


@dataclass
class _BucketRows:
    """Rows of one bucket that are not yet staged."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    kinds: list[np.ndarray] = field(default_factory=list)
    orders: list[np.ndarray | _LogOrder] = field(default_factory=list)
    bytes: int = 0


@dataclass
class _LogOrder:
    """The order of rows that wait for their log offsets: row i belongs to record ``record_of_row[i]``."""

    pending: PendingAppend
    record_of_row: np.ndarray

    def resolve(self) -> np.ndarray:
        offsets: np.ndarray = self.pending.offsets().to_numpy(zero_copy_only=False)
        ordered: np.ndarray = offsets[self.record_of_row]
        return ordered


class TaskWriter:
    """Writes the rows of one task: ``write`` many times, then ``finish`` once, or ``close`` after a failure.

    ``lane`` is the task's number in its epoch; it orders rows when the table has no log. Rows appended to the
    log are visible at once; they count only when the driver accepts this attempt.
    """

    def __init__(self, table: DynamicTable, writer: str, epoch: int, lane: int) -> None:
        self._table, self._writer, self._epoch = table, writer, epoch
        self._attempt = new_attempt()
        self._header = encode_header(DATA, writer, epoch, self._attempt)
        self._log: LogAppender | None = None
        if table.emits_log and table.log is not None:
            self._log = appender_for(table.log)
            self._format = log_format(table.options.need(DATA_FORMAT))
        self._next_order = lane << 32
        self._rows: dict[int, _BucketRows] = {}
        self._firsts: dict[int, PendingAppend] = {}
        self._records: dict[int, int] = {}
        self._runs: list[StagedRun] = []
        self._row_count = 0
        self._buffer_limit = int(table.options.need(WRITE_BUFFER_SIZE))

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows (table columns by name, optionally ``_row_kind``). Raises InvalidSchema, Unavailable."""
        if batch.num_rows == 0:
            return
        rows, kinds = conform(batch, self._table.schema, self._table.name)
        self._row_count += rows.num_rows
        for bucket, part, part_kinds in self._by_bucket(rows, kinds):
            self._write_bucket(bucket, part, part_kinds)
        if sum(b.bytes for b in self._rows.values()) > self._buffer_limit:
            self._spill()

    def flush_log(self) -> None:
        """Waits until the log has acknowledged every row so far. Raises Unavailable."""
        if self._log is not None:
            self._log.flush()

    def finish(self) -> AttemptResult:
        """Makes everything durable and returns what the driver needs to accept this attempt."""
        self.flush_log()
        for bucket in sorted(self._rows):
            self._stage(bucket, self._rows[bucket], inline=self._rows[bucket].bytes <= _INLINE_BYTES)
        self._rows.clear()
        appends = tuple(
            BucketAppend(bucket, int(self._firsts[bucket].offsets()[0].as_py()), self._records[bucket])
            for bucket in sorted(self._firsts)
        )
        return AttemptResult(self._writer, self._epoch, self._attempt, appends, tuple(self._runs), self._row_count)

    def close(self) -> None:
        """Gives up after a failure: waits for what was sent to the log, so that healing finds all of it."""
        self._rows.clear()
        if self._log is not None:
            with contextlib.suppress(LakelogError):
                self._log.flush()

    def _by_bucket(self, rows: pa.RecordBatch, kinds: np.ndarray) -> Iterator[tuple[int, pa.RecordBatch, np.ndarray]]:
        if self._table.schema.num_buckets <= 1:
            yield 0, rows, kinds
            return
        buckets = bucket_of_rows(rows, self._table.schema)
        order = np.argsort(buckets, kind="stable")
        found, starts = np.unique(buckets[order], return_index=True)
        for bucket, indices in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            yield bucket, rows.take(pa.array(indices)), kinds[indices]

    def _write_bucket(self, bucket: int, rows: pa.RecordBatch, kinds: np.ndarray) -> None:
        order: np.ndarray | _LogOrder
        if self._log is not None:
            order = self._append_log(self._log, bucket, rows, kinds)
        else:
            order = np.arange(self._next_order, self._next_order + rows.num_rows, dtype=np.int64)
            self._next_order += rows.num_rows
        if self._table.emits_files:
            held = self._rows.setdefault(bucket, _BucketRows())
            held.batches.append(rows)
            held.kinds.append(kinds)
            held.orders.append(order)
            held.bytes += rows.nbytes

    def _append_log(self, log: LogAppender, bucket: int, rows: pa.RecordBatch, kinds: np.ndarray) -> _LogOrder:
        if bucket not in self._firsts:
            self._firsts[bucket] = log.append(bucket, begin_record(self._writer, self._epoch, self._attempt))
            self._records[bucket] = 1
        keys = self._table.schema.primary_keys
        records, row_of_record = self._format.encode(rows, kinds, self._table.changelog_mode, keys, self._header)
        if len(records) == 0:
            return _LogOrder(self._firsts[bucket], np.zeros(rows.num_rows, dtype=np.int64))
        pending = log.append(bucket, records)
        self._records[bucket] += len(records)
        # a row without a record of its own (a -U) goes with the next record
        record_of_row = np.searchsorted(row_of_record, np.arange(rows.num_rows)).clip(max=len(records) - 1)
        return _LogOrder(pending, record_of_row)

    def _spill(self) -> None:
        self.flush_log()
        for bucket in sorted(self._rows):
            self._stage(bucket, self._rows[bucket], inline=False)
        self._rows.clear()

    def _stage(self, bucket: int, held: _BucketRows, inline: bool) -> None:
        table = pa.Table.from_batches(held.batches)
        orders = np.concatenate([o.resolve() if isinstance(o, _LogOrder) else o for o in held.orders])
        kinds = np.concatenate(held.kinds)
        keep = _without_replaced(orders, kinds)
        if len(keep) < len(kinds):
            table, orders, kinds = table.take(pa.array(keep)), orders[keep], kinds[keep]
        table = table.append_column(pa.field(ORDER_COLUMN, pa.int64(), nullable=False), pa.array(orders))
        table = table.append_column(pa.field(KIND_COLUMN, pa.int8(), nullable=False), pa.array(kinds))
        for partition, part in by_partition(table, self._table):
            if inline:
                self._runs.append(StagedRun(partition, bucket, part.num_rows, run_to_ipc(part)))
            else:
                self._runs.append(write_run_files(self._table, partition, bucket, part))


def _without_replaced(orders: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Indices of the rows to keep: a -U whose +U is in the same log record says nothing to the files."""
    same_record = np.zeros(len(orders), dtype=bool)
    same_record[:-1] = orders[:-1] == orders[1:]
    return np.flatnonzero(~((kinds == UPDATE_BEFORE) & same_record))
