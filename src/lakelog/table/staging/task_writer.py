"""One task of one epoch: appends rows to the log at once and prepares them for the files (RFC 2, task)."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.filestore.metadata.identity import IDENTITY_CHECK_S
from lakelog.io.machine import check_not_forked
from lakelog.io.metrics import METER, log_errors
from lakelog.io.names import new_attempt
from lakelog.logstore.base import LogAppender, PendingAppend, Records
from lakelog.logstore.protocol.control_records import begin_record
from lakelog.logstore.protocol.header import DATA, LOG_ONLY, encode_header
from lakelog.merge.table_rules import check_log_content
from lakelog.options.overwrite import OVERWRITE_DATA_FILES
from lakelog.options.table import MISSING_COLUMNS
from lakelog.paimon.rows.bucket import bucket_of_rows, rows_by_bucket
from lakelog.paimon.rows.row_kind import NAMES, ROW_KIND_COLUMN, kinds_from_text
from lakelog.paimon.schema.schema import DYNAMIC_BUCKET
from lakelog.table.log.clients import appender_of
from lakelog.table.log.partitions import is_aligned, log_partition_of_rows
from lakelog.table.log.record_schemas import RecordSchemas
from lakelog.table.log.register import check_lease
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN, AttemptResult, BucketAppend
from lakelog.table.model.constraints import RowConstraints
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.rejected.rows import Rejects
from lakelog.table.rejected.sources import Source, UpdatePairs, judged
from lakelog.table.runs.dynamic_buckets import check_bucket_mode
from lakelog.table.runs.runs import by_partition
from lakelog.table.staging.backfill import files_only_during_backfill
from lakelog.table.staging.conform import conform
from lakelog.table.staging.given_columns import with_own_columns
from lakelog.table.staging.job_files import JobFiles
from lakelog.table.staging.late_retractions import in_update_order
from lakelog.table.staging.row_check import check_seal, check_values, row_errors
from lakelog.table.staging.staged_rows import LogOrder, StagedRows
from lakelog.table.staging.watermark import EventTime

_LANE_BITS = 26
"""Number of bits in each task's own range of row numbers, in a table without a log."""


class TaskWriter:
    """Writes the rows of one task: ``write`` many times, then ``finish`` once, or ``close`` after a failure.

    ``lane`` is the task's number in its epoch; it orders rows if the table has no log. Rows appended to the log are
    visible at once; they count only if the driver accepts this attempt. ``replaces`` marks rows of an overwrite, with
    no current row left below them. ``job`` is the job id in the names of data files. ``rejects`` takes the bad rows,
    which fail the write without it. Without ``stages``, the rows are for the log alone: the caller has their files.
    """

    def __init__(
        self,
        table: DynamicTable,
        writer: str,
        epoch: int,
        lane: int,
        replaces: bool = False,
        job: JobFiles | None = None,
        rejects: Rejects | None = None,
        stages: bool = True,
    ) -> None:
        check_not_forked()
        self._rejects, self._pairs = rejects, UpdatePairs(table)
        self._event_time = EventTime.of(table)
        table = files_only_during_backfill(table)
        self._table, self._writer, self._epoch = table, writer, epoch
        self._stages = stages and table.emits_files
        self._rewrites = table.options.get_typed(OVERWRITE_DATA_FILES) is not None
        self._missing = table.options.need(MISSING_COLUMNS)
        self._constraints = RowConstraints.of(table)
        check_bucket_mode(table)
        table.check_log_writable()
        if table.publishes:
            check_log_content(table.options)
        table.check_identity(IDENTITY_CHECK_S if epoch else 0.0)
        self._attempt = new_attempt() if table.emits_files else f"{LOG_ONLY}{new_attempt()}"
        self._log: LogAppender | None = None
        if table.emits_log and table.log is not None:
            self._header = encode_header(DATA, writer, epoch, self._attempt, schema=RecordSchemas(table).own_id)
            with table.explained():
                self._log = appender_of(table, table.log)
            self._format = table.record_format
        self._next_order = lane << _LANE_BITS
        self._is_aligned = is_aligned(table.schema)
        self._staged = StagedRows(table, lane, replaces, job)
        self._firsts: dict[int, PendingAppend] = {}
        self._entries: dict[int, int] = {}
        self._row_count = self._log_bytes = 0
        self._kinds = np.zeros(len(NAMES), dtype=np.int64)
        self.has_appended = False
        """True once records of it may be in the log."""
        self._is_open = self._log is not None
        kept = table.registered.kept(writer) if self._is_open else None
        if kept is not None:
            kept.begin_use()

    def write(self, batch: pa.RecordBatch, are_new: bool = True) -> None:
        """Writes rows (table columns by name, optionally ``_row_kind``).

        When files are rewritten, ``_row_kind`` only counts the changed rows; it is NULL for the others. Rows of the
        table that stay as they are (not ``are_new``) are not checked against its constraints.

        Raises InvalidSchema, Unavailable, Fenced, TableReplaced.
        """
        if batch.num_rows == 0:
            return
        # a wrong column is no fault of any row
        batch = with_own_columns(batch, self._table.schema, self._table.name, self._missing)
        if self._rejects is None:
            changed: np.ndarray | None = None
            if self._rewrites:
                batch, changed = self._count_changed(batch)
            rows, kinds = self._checked(batch)
            if self._constraints is not None and are_new:
                checked = kinds if not self._rewrites else changed
                if checked is not None:
                    self._constraints.check(rows, checked)
                    self._constraints.warn(rows, checked)
            self.write_checked(rows, kinds)
        else:
            self.write_good(self._pairs.whole(batch, self._row_count + self._rejects.count))

    def write_good(self, source: Source) -> None:
        """Writes the good rows of a source, and rejects the others. Raises Unavailable, Fenced, TableReplaced."""
        assert self._rejects is not None
        for parts in judged(source, self._tried, self._rejects):
            if good := [part for part in parts if part[0].num_rows]:
                kinds = np.concatenate([kinds for _, kinds in good])
                # several batches, if a column has more than 2 GiB
                for rows in pa.Table.from_batches([rows for rows, _ in good]).combine_chunks().to_batches():
                    if self._constraints is not None:
                        self._constraints.warn(rows, kinds[: rows.num_rows])
                    self.write_checked(rows, kinds[: rows.num_rows])
                    kinds = kinds[rows.num_rows :]

    def _tried(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
        """As ``_checked``, and tries the seal, because nothing may refuse a row later. Raises InvalidSchema."""
        with row_errors(self._table.name):
            rows, kinds = self._checked(batch)
            if self._constraints is not None:
                self._constraints.check(rows, kinds)
            order_and_rows = pa.Table.from_batches([rows])
            order_and_rows = order_and_rows.append_column(ORDER_COLUMN, pa.array(np.arange(rows.num_rows)))
            order_and_rows = order_and_rows.append_column(KIND_COLUMN, pa.array(kinds))
            check_seal(list(by_partition(order_and_rows, self._table)) if rows.num_rows else (), self._table)
        return rows, kinds

    def _checked(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
        """The rows in the table's types, and their kinds; changes nothing. Raises InvalidSchema."""
        rows, kinds = conform(batch, self._table.schema, self._table.name, not self._rewrites, self._missing)
        check_values(rows, kinds, self._table, not self._rewrites)
        return rows, kinds

    def write_checked(self, rows: pa.RecordBatch, kinds: np.ndarray) -> None:
        """Writes rows in the table's types that need no check, for example those of its files, and their kinds.

        Raises Unavailable, Fenced.
        """
        if not self._rewrites:
            self._kinds += np.bincount(kinds, minlength=len(NAMES))
        order = in_update_order(rows, kinds, self._table.schema)
        if order is not None:
            rows, kinds = rows.take(pa.array(order)), kinds[order]
        self._row_count += rows.num_rows
        if self._event_time is not None:
            self._event_time.take(rows)
        if self._table.schema.has_dynamic_buckets:
            buckets = np.full(rows.num_rows, DYNAMIC_BUCKET, dtype=np.int32)  # the seal assigns them
        else:
            buckets = bucket_of_rows(rows, self._table.schema)
        if self._log and not self._is_aligned:
            self._write_unaligned(self._log, rows, kinds, buckets)
        else:
            rows_of = rows_by_bucket(buckets)
            orders = self._append_log(self._log, rows, kinds, rows_of) if self._log else self._count_on(rows_of)
            if self._stages:
                for bucket, indices in rows_of.items():
                    self._staged.add(bucket, rows, kinds, indices, orders[bucket])
        if self._staged.is_full:
            self.flush_log()
            self._staged.spill()

    def _write_unaligned(self, log: LogAppender, rows: pa.RecordBatch, kinds: np.ndarray, buckets: np.ndarray) -> None:
        """Appends by log partition and stages by bucket; orders count within a key, thus within a log partition."""
        rows_of = rows_by_bucket(log_partition_of_rows(rows, self._table.schema))
        orders = self._append_log(log, rows, kinds, rows_of)
        if not self._stages:
            return
        for partition, indices in rows_of.items():
            for bucket, chosen in rows_by_bucket(buckets[indices]).items():
                self._staged.add(bucket, rows, kinds, indices[chosen], orders[partition].take(chosen))

    @property
    def rejects_rows(self) -> bool:
        """True if it leaves bad rows out."""
        return self._rejects is not None

    @property
    def written(self) -> int:
        """The number of rows so far, without rejected ones."""
        return self._row_count

    def flush_log(self) -> None:
        """Waits until the log has acknowledged all rows. Raises Unavailable."""
        if self._log is not None:
            with log_errors(self._table.name, "append"), self._table.explained():
                self._log.flush()

    def finish(self) -> AttemptResult:
        """Makes everything durable and returns the result for the driver to accept this attempt."""
        if (last := self._pairs.rest(self._row_count + (self._rejects.count if self._rejects else 0))) is not None:
            self.write_good(last)
        self.flush_log()
        appends = tuple(
            BucketAppend(bucket, int(self._firsts[bucket].offsets()[0].as_py()), self._entries[bucket])
            for bucket in sorted(self._firsts)
        )
        with METER.step("write-files", table=self._table.name) as step:
            runs = self._staged.finish()
            step.set(rows=self._row_count, runs=len(runs))
        watermark = None if self._event_time is None else self._event_time.watermark
        rejected = () if self._rejects is None else self._rejects.finish()
        self._end()
        received = self._row_count + sum(part.rows for part in rejected)
        done = AttemptResult(self._writer, self._epoch, self._attempt, appends, runs, received)
        return replace(
            done, watermark=watermark, log_bytes=self._log_bytes, rejected=rejected, kinds=tuple(self._kinds.tolist())
        )

    def close(self) -> None:
        """Aborts after a failure: waits for records sent to the log, so that healing finds all of them.

        Deletes written files, unless ``finish`` has returned them.
        """
        self._staged.close()
        if self._rejects is not None:
            self._rejects.close()
        if self._log is not None:
            with contextlib.suppress(LakelogError):
                self._log.flush()
        self._end()

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            kept = self._table.registered.kept(self._writer)
            if kept is not None:
                kept.end_use()

    def _count_changed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray | None]:
        """Counts the rows of a rewrite that have a row kind; returns the batch without the kinds, and the kinds.

        The kind of a row that stays as it is, is -1. Without kinds, all rows stay.
        """
        index = batch.schema.get_field_index(ROW_KIND_COLUMN)
        if index < 0:
            return batch, None
        texts = batch.column(index)
        changed = kinds_from_text(texts.drop_null(), ROW_KIND_COLUMN).to_numpy()
        self._kinds += np.bincount(changed, minlength=len(NAMES))
        kinds = np.full(batch.num_rows, -1, dtype=np.int64)
        kinds[texts.is_valid().to_numpy(zero_copy_only=False)] = changed
        return batch.drop_columns([ROW_KIND_COLUMN]), kinds

    def _count_on(self, rows_of: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        """The arrival order of rows, for a table without a log."""
        first = self._next_order
        self._next_order += sum(len(indices) for indices in rows_of.values())
        return {bucket: indices + first for bucket, indices in rows_of.items()}

    def _append_log(
        self,
        log: LogAppender,
        rows: pa.RecordBatch,
        kinds: np.ndarray,
        rows_of: dict[int, np.ndarray],
    ) -> dict[int, LogOrder]:
        """Encodes the rows and appends each log partition's records; a row has the order of its change in the log."""
        keys = self._table.schema.primary_keys
        with row_errors(self._table.name):
            messages = self._format.messages(rows, kinds, self._table.changelog_mode, keys, self._header, rows_of)
        begins = [b for b in rows_of if b not in self._firsts]
        begin = begin_record(self._writer, self._epoch, self._attempt)
        parts: list[tuple[int, Records]] = [(bucket, begin) for bucket in begins]
        parts += [(bucket, message.records) for bucket, message in messages.items()]
        check_lease(self._table, self._writer)
        self.has_appended = True
        with log_errors(self._table.name, "append"), self._table.explained():
            pending = log.append_all(parts)
        self._log_bytes += sum(
            message.records.keys.nbytes + message.records.values.nbytes for message in messages.values()
        )
        self._firsts.update(zip(begins, pending, strict=False))
        for (bucket, _), appended in zip(parts, pending, strict=True):
            self._entries[bucket] = self._entries.get(bucket, 0) + appended.entries
        out: dict[int, LogOrder] = {}
        for (bucket, message), appended in zip(messages.items(), pending[len(begins) :], strict=True):
            most = self._format.changes_per_record
            out[bucket] = LogOrder(appended, message.record_of_row, message.change_of_row, most, message.rows)
        return out
