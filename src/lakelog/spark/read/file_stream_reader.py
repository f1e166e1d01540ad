"""Streaming read of the files in Spark: a full snapshot, then the changes of each new one; offsets are snapshot ids.

The driver plans one partition per part of a plan, and executors read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from lakelog.errors import InvalidRequest
from lakelog.options.log import MAX_ROWS_PER_TRIGGER, SCAN_FILTER
from lakelog.options.scan import CONSUMER_ID
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.compat.sources import (
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from lakelog.spark.read.batch_reader import SplitPartition
from lakelog.spark.runtime.types import arrow_for_spark, conform
from lakelog.spark.runtime.worker import OwnErrors, prepare_worker
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_stream import FileStream

Offset = dict[str, Any]
_TABLE = "table"


class LakelogFileStreamReader(OwnErrors, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of a streaming query on a table's files.

    Its offsets are ``{"table": id, "next": n}``: the changes of snapshots before n have been read. The first one has
    ``"full": id`` if that snapshot is read in full. With ``consumer-id`` the position is recorded as batches are
    committed.
    """

    def __init__(self, table: DynamicTable, schema: StructType) -> None:
        if table.schema.is_keyed and ROW_KIND_COLUMN not in schema.fieldNames():
            raise InvalidRequest(
                f"changes of the files of table {table.name}, which has a primary key, need a column "
                f"'{ROW_KIND_COLUMN}': use lake.read_stream('{table.name}'), or name it in .schema(…)"
            )
        stream, self._table_id = FileStream(table), table.identity.text
        text = table.options.get_typed(SCAN_FILTER)
        predicate = None if text is None else parse_filter(text, stream.row_schema)
        self._stream = stream.where(predicate).select(schema.fieldNames())
        self._target = arrow_for_spark(schema)
        self._limit = table.options.need(MAX_ROWS_PER_TRIGGER)
        self._stop_at: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        start = self._stream.start()
        own = {_TABLE: self._table_id, "next": start.next}
        return own if start.full is None else {**own, "full": start.full}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stop_at = (self._stream.table.store.snapshots.latest_id() or 0) + 1

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        prepare_worker()
        self._check_same(start)
        at, rows = int(start["next"]), 0
        while rows < self._limit and (self._stop_at is None or at < self._stop_at):
            snapshot = self._stream.find(at)
            if snapshot is None:
                break
            rows += abs(snapshot.delta_record_count or 0) + (snapshot.changelog_record_count or 0)
            at += 1
        if at == start["next"] and "full" not in start:
            return start
        return {_TABLE: self._table_id, "next": at}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._check_same(start)
        splits: list[Any] = []
        if "full" in start:
            splits += self._stream.full_plan(int(start["full"])).splits
        for snapshot_id in range(int(start["next"]), int(end["next"])):
            plan = self._stream.plan_of(snapshot_id)
            splits += () if plan is None else plan.splits
        return [SplitPartition(split) for split in splits] or [SplitPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        if isinstance(partition, SplitPartition) and partition.split is not None:
            for batch in self._stream.read(partition.split):
                yield conform(batch, self._target)

    def commit(self, end: Offset) -> None:
        consumer = self._stream.table.options.get_typed(CONSUMER_ID)
        if consumer is not None:
            self._stream.table.store.consumers.record(consumer, int(end["next"]))

    def _check_same(self, start: Offset) -> None:
        """Raises InvalidRequest for an offset in another table; those of early versions do not name it."""
        table = self._stream.table
        if start.get(_TABLE, self._table_id) != self._table_id:
            raise InvalidRequest(
                f"the checkpoint belongs to another table than {table.name}, which was recreated or renamed. Use a "
                "new checkpointLocation, or read the table of the checkpoint"
            )

    def stop(self) -> None:
        """Does nothing, because no resources are open."""
