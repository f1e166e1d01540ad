"""The rows of a frame as Arrow, with VARIANT columns that have NULL, which PySpark's own ``toArrow`` refuses."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StructField,
    StructType,
)

from lakelog.paimon.types.null_rows import cast_rows
from lakelog.spark.compat.arrow import collected, map_in_arrow
from lakelog.spark.compat.kinds import VariantType
from lakelog.spark.runtime.types import arrow_for_spark
from lakelog.spark.runtime.worker import prepare_worker

_PARTS = StructType([StructField("value", BinaryType()), StructField("metadata", BinaryType())])


def arrow_rows(frame: DataFrame) -> pa.Table:
    """The rows of a frame. With a VARIANT column, a Python task takes each value apart first."""
    schema = frame.schema
    plain = StructType([StructField(f.name, _taken_apart(f.dataType), f.nullable) for f in schema.fields])
    if plain == schema:
        return collected(frame)
    target = arrow_for_spark(plain)

    def take_apart(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            yield batch.cast(target)

    return cast_rows(collected(map_in_arrow(frame, take_apart, plain)), arrow_for_spark(schema))


def _taken_apart(kind: DataType) -> DataType:
    """The type with a row of two binary columns in place of each VARIANT."""
    if isinstance(kind, VariantType):
        return _PARTS
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _taken_apart(f.dataType), f.nullable) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_taken_apart(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_taken_apart(kind.keyType), _taken_apart(kind.valueType), kind.valueContainsNull)
    return kind
