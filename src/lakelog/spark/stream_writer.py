"""Streaming write in Spark: rows reach the log in the micro-batch, the driver decides and heals, a thread seals."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lakelog.errors import InternalError, InvalidRequest
from lakelog.spark.batch_writer import AttemptMessage, write_attempt
from lakelog.spark.worker import settle
from lakelog.table.attempt import AttemptResult
from lakelog.table.committer import committer_for
from lakelog.table.conform import check_columns
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.replay import ready_to_write
from lakelog.table.seal import sealer_for


class LakelogStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query; its writer id is the query id, which lives in the checkpoint."""

    def __init__(self, table: DynamicTable, schema: pa.Schema, overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest(
                f"outputMode('complete') into table {table.name} is not supported: use append, or update with a "
                f"primary key"
            )
        check_columns(schema, table.schema, table.name)
        self._table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> AttemptMessage:
        settle()
        context = TaskContext.get()
        if context is None:
            raise InternalError("a streaming sink's task runs without Spark's TaskContext")
        writer = context.getLocalProperty("sql.streaming.queryId") or ""
        epoch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        if not ready_to_write(self._table, writer, epoch):
            for _ in iterator:  # the rows of a replay are in the table already
                pass
            return AttemptMessage(AttemptResult(writer, epoch, "", replay=True))
        return write_attempt(self._table, writer, epoch, context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        settle()
        results = [m.result for m in messages if isinstance(m, AttemptMessage)]
        if not results:
            return
        committer = committer_for(self._table, results[0].writer)
        committer.commit(batchId, results)
        sealer_for(committer).notify()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do: the epoch stays undecided, and the run that decides it takes the rows back."""
