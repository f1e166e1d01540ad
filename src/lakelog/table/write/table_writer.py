"""Writes to a table without Spark: the same dual write, committed at the end of the ``with`` block."""

from __future__ import annotations

import contextlib
import weakref
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lakelog.errors import InvalidRequest, InvalidSchema, LakelogError, after_decision
from lakelog.io.machine import ProcessLock
from lakelog.io.metrics import METER
from lakelog.io.names import new_uuid
from lakelog.logstore.clients import close_clients
from lakelog.merge.table_rules import needs_lookup
from lakelog.options.boundary import Public
from lakelog.options.log_partitions import LINGER
from lakelog.table.commit.append import commit_append
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal_thread import Sealer
from lakelog.table.commit.seal_turn import close_writer, seal_in_turn
from lakelog.table.commit.take_over import take_over_best_effort
from lakelog.table.log.register import register_writer
from lakelog.table.maintenance.retention import expire_best_effort
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.registrations import BATCH
from lakelog.table.model.row_counts import RowCounts, WrittenRows, row_counts, sum_of
from lakelog.table.rejected.rows import Rejects, check_not_given
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.lingering_task import LingeringTask


class RowWriter(Public, ABC):
    """A writer of Arrow rows for several threads. It knows which rows remain after a failed call."""

    def __init__(self, table: DynamicTable, name: str) -> None:
        self._table, self._name = table, f"this {name} of table {table.name}"
        self._task: TaskWriter | LingeringTask | None = None
        self._failure: BaseException | None = None
        self._is_closed = False
        self._lock = ProcessLock(self._name)

    def write(self, rows: Any) -> None:
        """Writes an Arrow table, batch, reader, or anything with ``__arrow_c_stream__`` (polars, pandas, DuckDB).

        A column ``_row_kind`` (+I, -U, +U, -D) makes it a change stream. With ``log-store.linger``, rows wait for
        others in memory, and a later call raises the error of a write. Raises InvalidSchema, Unavailable. A call
        that raises InvalidSchema before it wrote a row leaves the writer usable. After any other error, the writer
        accepts no rows until ``abort``.
        """
        with self._lock:
            self._check_open()
            before = 0 if self._task is None else self._task.written
            try:
                if self._task is None:
                    self._task = self._first_task()
                batches = batches_of(rows)
                total = sum(b.num_rows for b in batches) if isinstance(batches, list) else None
                with METER.step("write", "rows", total, table=self._table.name) as step:
                    for batch in batches:
                        self._task.write(batch)
                        step.advance(batch.num_rows)
            except BaseException as why:
                if not is_refused(why, self._task, before):
                    self._failure = why
                raise

    @abstractmethod
    def _first_task(self) -> TaskWriter | LingeringTask:
        """The task of the first rows since a commit."""

    def _check_open(self) -> None:
        """Raises InvalidRequest for a writer that is closed, or has failed and was not aborted."""
        if self._is_closed:
            raise InvalidRequest(f"{self._name} is closed: open a new one")
        if self._failure is not None:
            raise failed_before(self._table.name, self._failure)


class TableWriter(RowWriter):
    """Writes and commits Arrow rows; use it as a context manager. Several threads may share it.

    Rows reach the log as they are written, and the table when the block ends or ``commit`` is called. An exception in
    the block commits nothing, and rows in the log are taken back. A call whose rows do not fit writes none of them, and
    the block may go on. If a call fails half-way and the block goes on, its end raises InvalidRequest: the rows since
    the last commit are not in the table. ``abort`` drops them. With
    ``may_reject`` bad rows are treated by ``on-bad-record``; without it they fail the write. A writer that is dropped
    without ``close`` gives its lease up, and another process takes its rows back.
    """

    def __init__(self, table: DynamicTable, may_reject: bool = False) -> None:
        if not may_reject:
            check_not_given(table)
        table.check_log_writable()
        super().__init__(table, "writer")
        self._may_reject = may_reject
        self._writer = new_uuid()
        self._epoch = 0
        self._linger_s = table.options.need(LINGER).total_seconds() if table.emits_log else 0.0
        self._thread = ThreadPoolExecutor(1, "lakelog-linger") if self._linger_s else None
        is_epoch = table.emits_log or (may_reject and Rejects.are_kept(table))
        self._sealer = Sealer(Committer(table, self._writer, once=True), work=seal_in_turn) if is_epoch else None
        # rows that only a compaction shows would be seen before their snapshot and not after it
        self._may_wait = table.emits_log and not (table.schema.is_keyed and needs_lookup(table.options))
        self._may_be_decided = False
        self._counts = row_counts()
        weakref.finalize(self, _abandon, table, self._writer, self._sealer).atexit = False

    @property
    def counts(self) -> RowCounts:
        """The rows that this writer has committed, by their row kinds."""
        return self._counts

    def flush(self) -> None:
        """Waits until the rows written so far are in the log, where tails see them. Raises Unavailable.

        With ``may_reject``, a -U in the last row waits for its +U.
        """
        with self._lock:
            try:
                if self._task is not None:
                    self._task.flush_log()
            except BaseException as why:
                self._failure = why
                raise

    def commit(self) -> RowCounts:
        """Commits the rows so far; returns their number by row kind. Batch reads of lakelog have them on return.

        In a table with a log, commits that follow each other within ``commit.interval`` share a snapshot, which is made
        when it ends or the writer is closed. Any other commit is a snapshot on return. Raises Unavailable,
        CommitConflict, CommitUnknown, Fenced.
        CommitDecided means that the rows are in the table, and only a later step failed: ``close`` retries it. Rows of
        a failed commit are not committed again: InvalidRequest.

        ```pycon
        >>> with t.writer() as writer:
        ...     writer.write(pl.DataFrame({"id": [3], "name": ["rum"]}))
        ...     counts = writer.commit()  # one snapshot
        ...     writer.write(pl.DataFrame({"id": [4], "name": ["ale"]}))
        >>> (t.count(), len(t.snapshots()))
        (4, 3)
        ```
        """
        with self._lock:
            if self._failure is not None or self._task is not None:
                self._check_open()
            if self._task is None:
                return row_counts()
            try:
                results = [self._task.finish()]
                if self._sealer is None:
                    commit_append(self._table, self._writer, results, self._epoch)
                else:
                    self._may_be_decided = True
                    self._sealer.committer.commit(self._epoch, results)
            except BaseException as why:
                self._failure = why
                raise
            counts = WrittenRows.of(results).as_changes
            self._counts = sum_of((self._counts, counts))
            self._end_epoch()
            if self._sealer is not None and self._may_wait and not self._sealer.is_due:
                with after_decision(self._table.name):
                    self._sealer.notify()
                return counts
            if self._sealer is not None:
                with after_decision(self._table.name):
                    self._sealer.seal_now()
            take_over_best_effort(self._table)
            expire_best_effort(self._table)
            return counts

    def abort(self) -> None:
        """Drops uncommitted rows, also after a failure; its rows in the log are taken back.

        ```pycon
        >>> with t.writer() as writer:
        ...     writer.write(pl.DataFrame({"id": [3], "name": ["rum"]}))
        ...     writer.abort()
        >>> t.count()
        2
        ```
        """
        with self._lock:
            if self._task is not None:
                self._task.close()
                if self._sealer is not None and (self._task.has_appended or self._may_be_decided):
                    self._sealer.committer.commit(self._epoch, [])  # stays until the next seal or close, for readers
                self._end_epoch()
            self._failure = None

    def _end_epoch(self) -> None:
        self._task, self._may_be_decided = None, False
        self._epoch += 1

    def close(self) -> None:
        """Drops uncommitted rows and deletes the writer's files; the writer is then closed.

        Rows that are decided but not yet in a snapshot are never dropped, because batch reads return them already.
        """
        with self._lock:
            self.abort()
            self._is_closed = True
            self._close()

    def _close(self) -> None:
        if self._thread is not None:
            self._thread.submit(close_clients)
            self._thread.shutdown()
            self._thread = None
        if self._sealer is None:
            return
        self._sealer.stop()
        has_rows = self._has_rows()
        if has_rows:
            with after_decision(self._table.name):
                seal_in_turn(self._sealer.committer, marks=True)
            has_rows = self._has_rows()
            expire_best_effort(self._table)
        close_writer(self._writer)
        self._table.registered.drop(self._writer)
        if not has_rows:
            self._sealer.committer.forget()

    def _first_task(self) -> TaskWriter | LingeringTask:
        if self._sealer is not None and self._table.emits_log:
            take_over_best_effort(self._table)
            self._sealer.committer.origin = register_writer(
                self._table, self._writer, BATCH, in_use=True
            )  # until close
        rejects = Rejects.of(self._table, self._writer, self._epoch, 0) if self._may_reject else None
        make = partial(TaskWriter, self._table, self._writer, self._epoch, lane=0, rejects=rejects)
        return make() if self._thread is None else LingeringTask(self._thread, make, self._linger_s)

    def _has_rows(self) -> bool:
        """True if a decided epoch waits for its snapshot; one that was taken back does not."""
        return any(record.attempts for record in self._table.decided.of(self._writer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._is_closed:
            try:
                self.commit()
            except BaseException:
                with contextlib.suppress(LakelogError):  # the first error is the one to raise
                    self.close()
                raise
        if kind is None:
            self.close()
        else:
            with contextlib.suppress(LakelogError):
                self.close()


def _abandon(table: DynamicTable, writer: str, sealer: Sealer | None) -> None:
    """The end of a writer that was dropped, or closed."""
    if sealer is not None:
        sealer.leave()
    table.registered.abandon(writer)


def is_refused(failure: BaseException, task: TaskWriter | LingeringTask | None, before: int) -> bool:
    """True if a ``write`` that failed has written no row, because its rows do not fit: the earlier ones stay valid."""
    is_unchanged = task is None or (isinstance(task, TaskWriter) and not task.rejects_rows and task.written == before)
    return is_unchanged and isinstance(failure, InvalidSchema | InvalidRequest)


def failed_before(table: str, failure: BaseException) -> InvalidRequest:
    """The error of a writer whose rows cannot be committed, because an earlier call of it has failed."""
    error = InvalidRequest(
        f"the rows of this writer since its last commit are not in table {table}: an earlier call failed "
        f"({type(failure).__name__}: {failure}). Write the rows that fit with a new writer"
    )
    error.__cause__ = failure
    return error


def batches_of(rows: Any) -> list[pa.RecordBatch] | pa.RecordBatchReader:
    """User rows of any supported type as record batches. Raises InvalidRequest for any other type, InvalidSchema."""
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if isinstance(rows, pa.Table):
        return rows.to_batches(max_chunksize=65_536)
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    if hasattr(rows, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(rows)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as why:
            raise InvalidSchema(
                f"{type(rows).__name__} has a column of a type that Arrow does not have: {why}. Cast it before writing"
            ) from None
    lazy = "; collect() it first" if hasattr(rows, "collect") else ""
    raise InvalidRequest(
        f"cannot write {type(rows).__name__}: give an Arrow table, a record batch, or an object with "
        f"__arrow_c_stream__{lazy}"
    )


def table_of(rows: Any) -> pa.Table:
    """User rows as one Arrow table. Raises the errors of ``batches_of``."""
    if isinstance(rows, pa.Table):
        return rows
    batches = batches_of(rows)
    return batches.read_all() if isinstance(batches, pa.RecordBatchReader) else pa.Table.from_batches(batches)
