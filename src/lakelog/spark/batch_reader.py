"""Batch read in Spark: one input partition per split, columns by the schema asked for, filters pushed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from lakelog.errors import InvalidRequest
from lakelog.filestore import filter as predicates
from lakelog.filestore.filter import Predicate
from lakelog.filestore.scan import Split
from lakelog.spark.types import arrow_for_spark, fit
from lakelog.spark.worker import settle
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.scan import Scan

_OPERATORS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


class SplitPartition(InputPartition):
    """One split of the plan."""

    def __init__(self, split: Split) -> None:
        super().__init__(0)
        self.split = split


class LakelogReader(DataSourceReader):
    """Plans on the driver, reads splits on executors."""

    def __init__(self, table: DynamicTable, schema: StructType) -> None:
        if table.reads_log:
            raise InvalidRequest(
                f"'read.mode'='log' of table {table.name} is a stream: use spark.readStream, or lake.sql, not spark.read"
            )
        self._scan = Scan(table).select(schema.fieldNames())
        self._target = arrow_for_spark(schema)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Takes the filters that prune; Spark still applies every one of them itself."""
        known = set(self._scan.table.schema.field_names)
        pushed = [p for f in filters if (p := to_predicate(f, known)) is not None]
        self._scan = self._scan.where(pushed)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return [SplitPartition(split) for split in self._scan.plan()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        if isinstance(partition, SplitPartition):
            for batch in self._scan.read(partition.split):
                yield fit(batch, self._target)


def to_predicate(given: Filter, known: set[str]) -> Predicate | None:
    """Spark's filter as a predicate of the file store; None for one that cannot prune."""
    attribute: tuple[str, ...] = getattr(given, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in known:
        return None
    column: str = attribute[0]
    value: Any = getattr(given, "value", None)
    if isinstance(given, IsNull):
        return predicates.IsNull(column)
    if isinstance(given, IsNotNull):
        return predicates.Not(predicates.IsNull(column))
    if isinstance(given, In):
        return predicates.In(column, tuple(v for v in _values(given) if v is not None))
    if isinstance(given, StringStartsWith):
        return predicates.StartsWith(column, value)
    if isinstance(given, EqualNullSafe):
        return predicates.IsNull(column) if value is None else predicates.Compare(column, "=", value)
    operator = _OPERATORS.get(type(given))
    return None if operator is None or value is None else predicates.Compare(column, operator, value)


def _values(given: In) -> tuple[Any, ...]:
    return tuple(given.value)
