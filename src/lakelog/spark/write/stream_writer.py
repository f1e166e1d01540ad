"""Streaming write in Spark: rows reach the log in the micro-batch, the driver decides and heals, a thread seals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.io.shared_counts import counts_directory
from lakelog.options.table import MISSING_COLUMNS
from lakelog.spark.compat.sources import DataSourceStreamArrowWriter, WriterCommitMessage
from lakelog.spark.runtime.types import with_times
from lakelog.spark.runtime.worker import OwnErrors, prepare_worker, this_task
from lakelog.spark.runtime.worker_end import ending_later
from lakelog.spark.write.batch_writer import AttemptMessage, write_attempt
from lakelog.table.commit.replay import should_write_epoch
from lakelog.table.commit.seal_thread import seal_all, sealer_for
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.rejected.rows import Rejects
from lakelog.table.staging.given_columns import check_columns
from lakelog.table.staging.watermark import EventTime


class LakelogStreamWriter(OwnErrors, DataSourceStreamArrowWriter):
    """The sink of a streaming query; its writer id is the query id, which is stored in the checkpoint."""

    def __init__(self, table: DynamicTable, schema: pa.Schema, overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest(
                f"outputMode('complete') into table {table.name} is not supported: lake.write_stream(frame, "
                f"'{table.name}') writes the changed rows of an aggregation into a table with a primary key"
            )
        check_columns(with_times(schema, table.schema), table.schema, table.name, table.options.need(MISSING_COLUMNS))
        EventTime.of(table)  # raises for options that would fail every task
        self._table, self._counts = table, counts_directory()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> AttemptMessage:
        prepare_worker()
        context = this_task()
        writer = context.getLocalProperty("sql.streaming.queryId") or ""
        epoch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        run = context.getLocalProperty("spark.jobGroup.id") or ""  # Spark's run id
        if not should_write_epoch(self._table, writer, epoch, run):
            rows = sum(batch.num_rows for batch in iterator)  # those of a replay are in the table already
            return AttemptMessage(AttemptResult(writer, epoch, "", row_count=rows, replay=True), run)
        task = context.partitionId()
        rejects = Rejects.of(self._table, writer, epoch, task)
        written = write_attempt(self._table, writer, epoch, task, iterator, rejects=rejects)
        return replace(written, run=run)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        prepare_worker(self._counts)
        with ending_later(seal_all):
            self.commit_epoch(messages, batchId)

    def commit_epoch(self, messages: Sequence[WriterCommitMessage | None], epoch: int) -> None:
        """Decides an epoch of the attempts that Spark has accepted, and heals the log; a thread seals it."""
        sent = [m for m in messages if isinstance(m, AttemptMessage)]
        if not sent:
            return
        sealer = sealer_for(self._table, sent[0].result.writer)
        sealer.committer.begin_run(sent[0].run)
        sealer.committer.commit(epoch, [m.result for m in sent])
        sealer.notify()
        sealer.committer.check_alone()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: the epoch stays undecided. The run that decides it takes the rows back.

        If the lease of this query expires first, the next process takes them back.
        """
