"""Batch read in Spark: one input partition per split, columns by the schema asked for, ``scan.filter`` applied.

Spark's own filter push-down is not used: what one action on a DataFrame has pushed stays for the next one (RFC 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakelog.errors import InvalidRequest
from lakelog.options.log import SCAN_FILTER
from lakelog.spark.types import arrow_for_spark, fit
from lakelog.spark.worker import settle
from lakelog.sql.filter_text import parse_filter
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.views import scan_of


class SplitPartition(InputPartition):
    """One split of the plan."""

    def __init__(self, split: Any) -> None:
        super().__init__(0)
        self.split = split


class LakelogReader(DataSourceReader):
    """Plans on the driver, reads splits on executors."""

    def __init__(self, table: DynamicTable, schema: StructType) -> None:
        if table.reads_log:
            raise InvalidRequest(
                f"'read.mode'='log' of table {table.name} is a stream: use spark.readStream, or lake.sql, not "
                f"spark.read"
            )
        text = table.options.get_typed(SCAN_FILTER)
        scan = scan_of(table)
        predicate = None if text is None else parse_filter(text, scan.row_schema)
        self._scan = scan.where(predicate).select(schema.fieldNames())
        self._target = arrow_for_spark(schema)

    def partitions(self) -> Sequence[InputPartition]:
        return [SplitPartition(split) for split in self._scan.plan()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        if isinstance(partition, SplitPartition):
            for batch in self._scan.read(partition.split):
                yield fit(batch, self._target)
