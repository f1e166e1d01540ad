"""Batch write in Spark: every task writes one attempt, the driver commits them as one epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakelog.errors import InvalidRequest
from lakelog.io.names import new_uuid
from lakelog.spark.worker import settle
from lakelog.table.attempt import AttemptResult
from lakelog.table.committer import Committer, register_writer
from lakelog.table.conform import check_columns
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.retention import tidy_quietly
from lakelog.table.seal import seal
from lakelog.table.task_writer import TaskWriter


@dataclass
class AttemptMessage(WriterCommitMessage):
    """What a task sends to the driver."""

    result: AttemptResult


def write_attempt(
    table: DynamicTable, writer: str, epoch: int, lane: int, batches: Iterator[pa.RecordBatch]
) -> AttemptMessage:
    """Writes all batches of a task as one attempt."""
    task = TaskWriter(table, writer, epoch, lane)
    try:
        for batch in batches:
            task.write(batch)
        return AttemptMessage(task.finish())
    except BaseException:
        task.close()
        raise


class LakelogWriter(DataSourceArrowWriter):
    """Made on the driver for one job; pickled to its tasks."""

    def __init__(self, table: DynamicTable, schema: pa.Schema, overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest(
                f"overwriting table {table.name} is not supported yet: use mode('append'), or DROP and CREATE the table"
            )
        check_columns(schema, table.schema, table.name)
        self._table, self._writer = table, new_uuid()
        if table.emits_log:
            register_writer(table, self._writer)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> AttemptMessage:
        settle()
        context = TaskContext.get()
        lane = 0 if context is None else context.partitionId()
        return write_attempt(self._table, self._writer, 0, lane, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        committer = Committer(self._table, self._writer, once=True)
        committer.commit(0, [m.result for m in messages if isinstance(m, AttemptMessage)])
        seal(committer)
        self._table.staged.forget_writer(self._writer)
        tidy_quietly(self._table)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        committer = Committer(self._table, self._writer, once=True)
        record = committer.commit(0, [])
        if record is not None and not record.attempts:
            self._table.staged.forget_writer(self._writer)
