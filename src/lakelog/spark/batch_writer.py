"""Batch write in Spark: every task writes one attempt, the driver commits them as one epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakelog.errors import InvalidOption
from lakelog.io.names import new_uuid
from lakelog.options.table import OVERWRITE_PARTITION
from lakelog.spark.worker import settle
from lakelog.table.attempt import AttemptResult
from lakelog.table.committer import Committer, register_writer
from lakelog.table.conform import check_columns
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.overwrite import check_overwritable, commit_overwrite
from lakelog.table.overwrite_target import OverwriteTarget, overwrite_target
from lakelog.table.retention import tidy_quietly
from lakelog.table.seal import seal
from lakelog.table.task_writer import TaskWriter


@dataclass
class AttemptMessage(WriterCommitMessage):
    """What a task sends to the driver."""

    result: AttemptResult


def write_attempt(
    table: DynamicTable,
    writer: str,
    epoch: int,
    lane: int,
    batches: Iterator[pa.RecordBatch],
    replaces: bool = False,
) -> AttemptMessage:
    """Writes all batches of a task as one attempt; ``replaces``: as part of an overwrite."""
    task = TaskWriter(table, writer, epoch, lane, replaces)
    try:
        for batch in batches:
            task.write(batch)
        return AttemptMessage(task.finish())
    except BaseException:
        task.close()
        raise


class LakelogWriter(DataSourceArrowWriter):
    """Made on the driver for one job; pickled to its tasks.

    An overwrite's tasks write files only, and its commit is one snapshot.
    """

    def __init__(self, table: DynamicTable, schema: pa.Schema, overwrite: bool) -> None:
        check_columns(schema, table.schema, table.name)
        self._table, self._writer = table, new_uuid()
        self._target = _target(table) if overwrite else None
        if overwrite:
            check_overwritable(table)
        elif table.emits_log:
            register_writer(table, self._writer)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> AttemptMessage:
        settle()
        context = TaskContext.get()
        lane = 0 if context is None else context.partitionId()
        return write_attempt(self._table, self._writer, 0, lane, iterator, self._target is not None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        results = [m.result for m in messages if isinstance(m, AttemptMessage)]
        if self._target is not None:
            commit_overwrite(self._table, self._writer, results, self._target)
            tidy_quietly(self._table)
            return
        committer = Committer(self._table, self._writer, once=True)
        committer.commit(0, results)
        seal(committer)
        self._table.staged.forget_writer(self._writer)
        tidy_quietly(self._table)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._target is not None:  # files that no snapshot names are all that it left
            return
        committer = Committer(self._table, self._writer, once=True)
        record = committer.commit(0, [])
        if record is not None and not record.attempts:
            self._table.staged.forget_writer(self._writer)


def _target(table: DynamicTable) -> OverwriteTarget:
    text = table.options.get_typed(OVERWRITE_PARTITION)
    if text is None:
        return overwrite_target(table)
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not values:
        raise InvalidOption(
            f"option '{OVERWRITE_PARTITION.key}' = '{text}' is no JSON object of partition columns and values"
        )
    return overwrite_target(table, values)
