"""Table columns as Spark types, and Arrow batches with exactly the schema that Spark expects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
)
from pyspark.sql.types import DataType as SparkType

from lakelog.errors import UnsupportedFeature
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema, fields_from_arrow, plain_batch
from lakelog.paimon.types.null_rows import cast_column, cast_rows
from lakelog.paimon.types.types import DataType
from lakelog.paimon.types.variant import is_variant
from lakelog.spark.compat.arrow import frame_of_rows, from_arrow, to_arrow
from lakelog.spark.compat.kinds import DATETIMES, TimeType
from lakelog.spark.compat.natives import VARIANTS
from lakelog.table.model.dynamic_table import DynamicTable

_CHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's own mark of a text column whose type is CHAR."""
CATALOG_OPTION: Final = "catalog"
"""Option with the catalog whose storage options apply to the table."""
SCHEMA_OPTION: Final = "lakelog.schema-id"
"""Key of a Spark option: the id of the schema that a streaming query knows. Spark opens the table again and again."""


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of Arrow columns (timestamps with a zone are TIMESTAMP, without one TIMESTAMP_NTZ)."""
    fields = [_readable(field) for field in schema]
    return from_arrow(pa.schema(fields))


def scan_schema(schema: pa.Schema, table: TableSchema) -> StructType:
    """The Spark schema of columns of a table; Spark pads its CHAR columns, and the texts that it compares them with."""
    schema_of_rows: StructType = spark_schema(schema)
    lengths = table.padded_columns
    for field in schema_of_rows.fields:
        if field.name in lengths:
            field.metadata = {_CHAR: f"char({lengths[field.name]})"}
    return schema_of_rows


def arrow_for_spark(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark requires of a batch for this Spark schema."""
    return to_arrow(schema)


def frame_of(spark: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """A frame that contains rows; ``schema`` defaults to theirs.

    For an empty table Spark accepts no nested column without a chunk, and Connect requires a schema. PySpark knows no
    encoded columns, such as views of polars, and no slices of nested ones.
    """
    batches = [_whole(plain_batch(batch)) for batch in rows.to_batches()]
    if batches:
        rows = pa.Table.from_batches(batches)
        rows = cast_rows(rows, rows.schema)
    if rows.num_rows:
        return frame_of_rows(spark, rows, from_arrow(rows.schema) if schema is None else schema)
    whole = spark_schema(rows.schema) if schema is None else schema
    return frame_of_rows(spark, arrow_for_spark(whole).empty_table(), whole)


def _whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with copies of its nested columns, which may be slices of others."""
    every = pa.array(np.arange(batch.num_rows))
    columns = [column.take(every) if pa.types.is_nested(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def columns_of(schema: StructType, allow_null: bool = False) -> list[tuple[str, DataType]]:
    """(name, type) of Spark's columns; all may be NULL. Raises UnsupportedFeature for a type that tables do not have.

    With ``allow_null``, columns and parts of columns that are always NULL count as STRING, and times have milliseconds.
    """
    arrow = to_arrow(schema)
    if allow_null:
        times = {field.name: pa.time32("ms") for field in arrow if pa.types.is_time(field.type)}
        arrow = pa.schema([field.with_type(times.get(field.name) or _with_text(field.type)) for field in arrow])
    fields = fields_from_arrow(arrow)
    return [(name, kind.with_nullable(True)) for name, kind, _ in fields]


def _with_text(kind: pa.DataType) -> pa.DataType:
    """The type with STRING in place of NULL."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_map(kind):
        return pa.map_(_with_text(kind.key_type), _with_text(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_text(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_text(field.type)) for field in kind])
    return kind


def conform(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The batch's columns in the order and types that Spark requires."""
    if batch.schema.equals(target):
        return batch
    columns = []
    for field in target:
        column = batch.column(batch.schema.get_field_index(field.name))
        columns.append(column if column.type == field.type else _cast(column, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def padded(rows: pa.Table, table: TableSchema) -> pa.Table:
    """Rows whose CHAR columns have their lengths, as Spark itself pads them in files."""
    for name, length in table.padded_columns.items():
        at = rows.schema.get_field_index(name)
        if at >= 0:
            rows = rows.set_column(at, rows.schema.field(at), pc.utf8_rpad(rows.column(at), length, " "))
    return rows


def with_times(schema: pa.Schema, table: TableSchema) -> pa.Schema:
    """The columns of a frame for a table: the numbers as which Spark reads times of day are times again."""
    types = {field.name.lower(): field.type for field in arrow_schema(table.fields)}
    return pa.schema([field.with_type(_timed(field.type, types.get(field.name.lower()))) for field in schema])


def _timed(have: pa.DataType, want: pa.DataType | None) -> pa.DataType:
    if want is None or have.num_fields != want.num_fields:
        return have
    if pa.types.is_int32(have) and pa.types.is_time(want):
        return want
    if pa.types.is_list(have) and pa.types.is_list(want):
        return pa.list_(have.value_field.with_type(_timed(have.value_type, want.value_type)))
    if pa.types.is_map(have) and pa.types.is_map(want):
        key = have.key_field.with_type(_timed(have.key_type, want.key_type))
        return pa.map_(key, have.item_field.with_type(_timed(have.item_type, want.item_type)))
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        parts = {part.name.lower(): part.type for part in want}
        return pa.struct([part.with_type(_timed(part.type, parts.get(part.name.lower()))) for part in have])
    return have


def has_null_elements(columns: Iterable[pa.Array]) -> bool:
    """True if an array or a map in some columns, at any depth, may contain NULL.

    Spark copies rows that its planner has fetched, and fails on such elements. It reads each number of an array without
    a NULL check.
    """
    for column in columns:
        kind = column.type
        if pa.types.is_map(kind):
            if column.items.null_count or has_null_elements([column.keys, column.items]):
                return True
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            elements = column.flatten()
            if elements.null_count or has_null_elements([elements]):
                return True
        elif pa.types.is_struct(kind) and has_null_elements(column.flatten()):
            return True
    return False


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_time(column.type) and pa.types.is_integer(kind):
        return column.cast(pa.int32()).cast(kind)
    return column.cast(kind, safe=False) if pa.types.is_timestamp(kind) else cast_column(column, kind)


def _readable(field: pa.Field) -> pa.Field:
    """The field for Spark, which has only microseconds, and no time of day before 4.1's TIME."""
    kind = field.type
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        kind = pa.timestamp("us", tz=kind.tz)
    if pa.types.is_time(kind):
        kind = pa.int32()
    if pa.types.is_union(kind):
        raise UnsupportedFeature(f"column '{field.name}' has type {kind}, which Spark cannot read")
    if not VARIANTS and _has(kind, is_variant):
        raise UnsupportedFeature(
            f"column '{field.name}' of type VARIANT needs Spark {VARIANTS.text}: read and write the table without Spark"
        )
    if pa.types.is_nested(kind) and _has(kind, pa.types.is_time):
        raise UnsupportedFeature(
            f"column '{field.name}' has type {kind}: Spark reads a time of day as a column, not as a part of one"
        )
    return pa.field(field.name, kind, field.nullable)


def _has(kind: pa.DataType, is_such: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type, or a part of it, is such a type."""
    return is_such(kind) or any(_has(kind.field(at).type, is_such) for at in range(kind.num_fields))


def can_assign(have: SparkType, want: SparkType, is_time: bool = False) -> bool:
    """Whether INSERT stores values of a type in a column, as Spark's store assignment; texts are parsed, too.

    It takes no value of another meaning, such as a number for a time. Structs are compared by position. ``is_time``:
    the column is one of times of day, which are numbers here.
    """
    if have == want or isinstance(have, NullType):
        return True
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return can_assign(have.elementType, want.elementType)
    if isinstance(have, MapType) and isinstance(want, MapType):
        return can_assign(have.keyType, want.keyType) and can_assign(have.valueType, want.valueType)
    if isinstance(have, StructType) and isinstance(want, StructType):
        pairs = zip(have.fields, want.fields, strict=False)
        return len(have) == len(want) and all(can_assign(a.dataType, b.dataType) for a, b in pairs)
    if isinstance(want, StringType) or isinstance(have, StringType):
        return isinstance(have, AtomicType) and isinstance(want, AtomicType)
    if isinstance(have, TimeType):
        return is_time
    return any(isinstance(have, kind) and isinstance(want, kind) for kind in (NumericType, DATETIMES))


def checks_casts(spark: SparkSession) -> bool:
    """True if a cast of the session fails for a value that does not fit."""
    return str(spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"


def items(sequence: Any) -> list[Any]:
    """The elements of a sequence of Scala."""
    return [sequence.apply(at) for at in range(sequence.size())]


def quoted(name: str) -> str:
    """A column's name, quoted for Spark's expressions."""
    return "`" + name.replace("`", "``") + "`"


def column_of(name: str) -> Column:
    """A column of a frame by its name, with any characters."""
    return sf.col(quoted(name))


def stream_options_of(table: DynamicTable) -> dict[str, str]:
    """The options of a streaming query, which continues with the columns that the table had when the query was made."""
    return {**options_of(table), SCHEMA_OPTION: str(table.schema.id)}


def options_of(table: DynamicTable) -> dict[str, str]:
    """The table's options for this use, and its catalog if that is not the session's first one."""
    catalog = table.location.identifier.catalog
    return {**table.hints, **({CATALOG_OPTION: catalog} if catalog else {})}
