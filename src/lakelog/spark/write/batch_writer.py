"""Batch write in Spark: every task writes one attempt, the driver commits them as one epoch."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from lakelog.errors import InvalidOption, NotFound, after_decision
from lakelog.io.clock import sleep
from lakelog.io.names import new_uuid
from lakelog.io.shared_counts import counts_directory, share_counts
from lakelog.options.option import Option
from lakelog.options.overwrite import OVERWRITE_DATA_FILES, OVERWRITE_PARTITION
from lakelog.options.table import MISSING_COLUMNS
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.compat.arrow import map_in_arrow
from lakelog.spark.compat.sources import DataSourceArrowWriter, WriterCommitMessage
from lakelog.spark.runtime.types import arrow_for_spark, conform, with_times
from lakelog.spark.runtime.worker import OwnErrors, prepare_worker
from lakelog.spark.runtime.worker_end import Try, each_ran_once, task_end
from lakelog.table.commit.append import commit_append
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.log_repair import take_back_late, was_forgotten
from lakelog.table.commit.seal_turn import seal_in_turn
from lakelog.table.commit.take_over import take_over_best_effort
from lakelog.table.log.register import register_writer
from lakelog.table.maintenance.retention import expire_best_effort
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import newest_state
from lakelog.table.model.partition_selection import OverwriteTarget, overwrite_target
from lakelog.table.model.registrations import BATCH
from lakelog.table.model.row_counts import RowCounts, WrittenRows, row_counts
from lakelog.table.model.waiting_epochs import sealed_elsewhere
from lakelog.table.rejected.rows import Rejects, by_constraints
from lakelog.table.staging.given_columns import check_columns
from lakelog.table.staging.job_files import JobFiles
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.overwrite import commit_overwrite
from lakelog.table.write.replace_files import commit_rewrite
from lakelog.table.write.replaced_rows import check_overwrite, files_alone

_T = TypeVar("_T")
_TASK_END_S: Final = 3.0
"""Wait for a cancelled task, which may write until Spark kills its Python two seconds after the request."""


@dataclass
class AttemptMessage(WriterCommitMessage):
    """A task's message to the driver; ``run`` is that of its streaming query."""

    result: AttemptResult
    run: str = ""


def write_attempt(
    table: DynamicTable,
    writer: str,
    epoch: int,
    lane: int,
    batches: Iterator[pa.RecordBatch],
    replaces: bool = False,
    job: JobFiles | None = None,
    rejects: Rejects | None = None,
) -> AttemptMessage:
    """Writes all batches of a task as one attempt; ``replaces`` for an overwrite, ``job`` for a batch job."""
    task = TaskWriter(table, writer, epoch, lane, replaces, job, rejects)
    try:
        for batch in batches:
            task.write(conform(batch, with_times(batch.schema, table.schema)))
        return AttemptMessage(task.finish())
    except BaseException:
        task.close()
        raise


class LakelogWriter(OwnErrors, DataSourceArrowWriter):
    """The writer of one job, created on the driver and pickled to its tasks.

    An overwrite's tasks write files only, and its commit is one snapshot, or one epoch if a log needs the changed rows.
    ``counts`` are the rows of the commit.
    """

    def __init__(self, table: DynamicTable, schema: pa.Schema, overwrite: bool) -> None:
        if not overwrite:
            table = by_constraints(table)
        self._may_reject = not overwrite and ROW_KIND_COLUMN not in schema.names and Rejects.are_kept(table)
        check_columns(with_times(schema, table.schema), table.schema, table.name, table.options.need(MISSING_COLUMNS))
        self._table, self._writer = table, new_uuid()
        self._job, self._counts = JobFiles(self._writer), counts_directory()
        self._files = replaced_files(table) if overwrite else None
        self._target = _target(table) if overwrite else None
        self.counts = row_counts()
        if overwrite:
            check_overwrite(table)
        else:
            take_over_best_effort(table)

    @property
    def tag(self) -> str:
        """The tag of this write's Spark jobs."""
        return f"lakelog-{self._writer}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> AttemptMessage:
        prepare_worker()
        if self._target is None and self._table.emits_log:
            register_writer(self._table, self._writer, BATCH)
        replaces = self._target is not None
        table = files_alone(self._table) if replaces else self._table
        rejects = Rejects.of(table, self._writer, 0, _partition_id()) if self._may_reject else None
        return write_attempt(table, self._writer, 0, _partition_id(), iterator, replaces, self._job, rejects)

    def commit(self, messages: list[WriterCommitMessage | None], no_other_tries: bool = False) -> None:
        """Commits the attempts that Spark has accepted; ``no_other_tries``: no other attempt left files."""
        share_counts(self._counts)
        results = [m.result for m in messages if isinstance(m, AttemptMessage)]
        if self._files is not None:
            self.counts = commit_rewrite(self._table, self._writer, results, self._files)
        elif self._target is not None:
            commit_overwrite(self._table, self._writer, results, self._target)
            self.counts = WrittenRows.of(results).as_overwrite
        else:
            _commit(self._table, self._writer, results, no_other_tries)
            self.counts = WrittenRows.of(results).as_changes
        if not no_other_tries:
            self._job.remove_uncommitted(self._table, results)
        expire_best_effort(self._table)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Called by Spark for a failed job, possibly before its other tasks have ended."""
        self.take_back(messages)
        if any(message is None for message in messages) and len(messages) > 1:
            sleep(_TASK_END_S)
            self._job.remove_all(self._table)

    def take_back(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Takes a failed job back, with all files of its tasks.

        If no message is missing, the job has failed in ``commit``. Its files then stay, because it may be decided.
        """
        is_over = any(message is None for message in messages)
        if self._target is None:
            results = [m.result for m in messages if isinstance(m, AttemptMessage)]
            is_over |= _take_back(self._table, self._writer, results)
        if is_over:
            self._job.remove_all(self._table)


def write_frame(frame: DataFrame, table: DynamicTable, overwrite: bool = False) -> RowCounts:
    """Writes a batch frame, columns by name, and commits it here in the driver; for sessions that are not remote.

    It is equivalent to the data source, without the three Python processes that it starts in sequence to plan and to
    commit. For each task Spark returns the result of one attempt. Returns the counts of the rows. Raises the errors of
    the checks, Spark and the commit; no row counts in that case.
    """
    writer = LakelogWriter(table, arrow_for_spark(frame.schema), overwrite)

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = writer.write(batches)
        yield pa.RecordBatch.from_pydict({"message": [pickle.dumps((message, Try.this()))]})

    messages: list[WriterCommitMessage | None] = [None]
    try:
        with task_end(frame.sparkSession, writer.tag):
            found = map_in_arrow(frame, written, StructType([StructField("message", BinaryType())])).collect()
        answers: list[tuple[AttemptMessage, Try]] = [pickle.loads(row.message) for row in found]
        messages = [message for message, _ in answers]
        writer.commit(messages, each_ran_once(frame.sparkSession, [t for _, t in answers]))
    except BaseException:
        writer.take_back(messages)  # a commit that failed after its decision stays decided
        raise
    return writer.counts


def _partition_id() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _commit(table: DynamicTable, writer: str, results: Sequence[AttemptResult], no_other_tries: bool) -> None:
    """Commits the rows of the accepted attempts; one snapshot if there is no log.

    A task that Spark has abandoned may append for some seconds. In that case the writer is left to ``take_over``.
    """
    if table.emits_log or any(result.rejected for result in results):
        committer = Committer(table, writer, once=True)
        committer.commit(0, results)
        with after_decision(table.name):
            seal_in_turn(committer, marks=True)
        if not committer.lacks_markers:
            table.registered.drop(writer)
            if no_other_tries:
                committer.forget()
            else:
                table.registered.write_lease(writer, BATCH, table.lease_ms)
    else:
        commit_append(table, writer, results)
    take_over_best_effort(table)


def _take_back(table: DynamicTable, writer: str, results: Sequence[AttemptResult]) -> bool:
    """Takes back this write's records in the log after a failure; returns whether that is certain.

    ``results`` are those of the tasks that have ended. If the writer was forgotten meanwhile, and a later task has
    registered it again, some of their records precede its origin.
    """
    if not table.emits_log:
        return False
    try:
        snapshot = newest_state(table.store)[0]
        if sealed_elsewhere(table, snapshot, EpochRecord(writer, 0, 0, tuple(results), once=True)) is not None:
            return False  # decided, and the writer has closed
    except NotFound:
        return False  # that snapshot may have expired
    record = Committer(table, writer, once=True).commit(0, [])
    if record is None or record.attempts:
        return False
    appended = [r for r in results if r.appends]
    if appended and was_forgotten(table, writer, appended):
        take_back_late(table, writer, 0, appended)
    else:
        table.registered.drop(writer)
        table.registered.write_lease(writer, BATCH, table.lease_ms)
    return True


def replaced_files(table: DynamicTable) -> list[str] | None:
    """The data files that an overwrite replaces, None if it replaces partitions."""
    text = table.options.get_typed(OVERWRITE_DATA_FILES)
    return None if text is None else _parsed(OVERWRITE_DATA_FILES, text, list, "list of names of data files")


def _parsed(option: Option[Any], text: str, kind: type[_T], what: str) -> _T:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise InvalidOption(f"option '{option.key}' = '{text[:200]}' is not a JSON {what}")
    return value


def _target(table: DynamicTable) -> OverwriteTarget:
    text = table.options.get_typed(OVERWRITE_PARTITION)
    if text is None:
        return overwrite_target(table)
    return overwrite_target(table, _parsed(OVERWRITE_PARTITION, text, dict, "object of partition columns and values"))
