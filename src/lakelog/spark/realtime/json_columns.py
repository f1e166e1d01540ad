"""Columns ⇄ the JSON of the log by Spark's own expressions, type by type as ``logstore.json_rows`` does it without
Spark.

Called where no Python may run: in queries under a real-time trigger. Types are Arrow's, those of the table; what
``decoded`` makes has the type that ``spark_schema`` says.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lakelog.spark.runtime.types import spark_schema

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EPOCH: Final = "1970-01-01 00:00:00"


def spark_type(kind: pa.DataType) -> DataType:
    """The type that Spark has for a column of this type."""
    return spark_schema(pa.schema([("", kind)]))[0].dataType


def json_type(kind: pa.DataType) -> DataType:
    """The type as which ``from_json`` reads a column before ``decoded`` makes it what it is."""
    if _is_text(kind):
        return StringType()
    if pa.types.is_map(kind):
        item = json_type(kind.item_type)
        if pa.types.is_string(kind.key_type):
            return MapType(StringType(), item)
        return ArrayType(StructType([StructField("key", json_type(kind.key_type)), StructField("value", item)]))
    if pa.types.is_struct(kind):
        return StructType([StructField(f.name, json_type(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return ArrayType(json_type(kind.value_type))
    return spark_type(kind)


def decoded(column: Column, kind: pa.DataType) -> Column:
    """The column as ``from_json`` gives it (``json_type``), in its own type. Text that does not fit fails the query
    (or is NULL where ``spark.sql.ansi.enabled`` is false).
    """
    if not _changes(kind):
        return column
    if pa.types.is_map(kind):
        if pa.types.is_string(kind.key_type):
            return sf.transform_values(column, lambda _, value: decoded(value, kind.item_type))
        return sf.map_from_entries(sf.transform(column, lambda pair: _pair(pair, kind, decoded)))
    if pa.types.is_struct(kind):
        fields = (decoded(column.getField(f.name), f.type).alias(f.name) for f in kind)
        return sf.when(column.isNotNull(), sf.struct(*fields))
    if pa.types.is_list(kind):
        return sf.transform(column, lambda value: decoded(value, kind.value_type))
    if _is_bytes(kind):
        return sf.unbase64(column)
    if pa.types.is_time(kind):
        moment = sf.concat(sf.lit("1970-01-01 "), column, sf.lit("Z")).cast("timestamp")
        return sf.unix_millis(moment).cast("int")
    return column.cast(spark_type(kind))


def encoded(column: Column, kind: pa.DataType) -> Column:
    """A column of ``spark_type(kind)`` as ``to_json`` has to get it."""
    if not _changes(kind):
        return column
    if pa.types.is_map(kind):
        if pa.types.is_string(kind.key_type):
            return sf.transform_values(column, lambda _, value: encoded(value, kind.item_type))
        return sf.transform(sf.map_entries(column), lambda pair: _pair(pair, kind, encoded))
    if pa.types.is_struct(kind):
        fields = (encoded(column.getField(f.name), f.type).alias(f.name) for f in kind)
        return sf.when(column.isNotNull(), sf.struct(*fields))
    if pa.types.is_list(kind):
        return sf.transform(column, lambda value: encoded(value, kind.value_type))
    if _is_bytes(kind):
        return sf.translate(sf.base64(column), "\r\n", "")  # Spark breaks it into lines
    if pa.types.is_timestamp(kind):
        moment = column if kind.tz is None else _after_epoch(column.cast("decimal(18,6)"))
        text = _with_fraction(moment.cast("string"), _DIGITS[kind.unit])
        return text if kind.tz is None else sf.concat(text, sf.lit("Z"))
    if pa.types.is_time(kind):
        moment = _after_epoch((column.cast("decimal(18,6)") / sf.lit(1000)).cast("decimal(18,6)"))
        return _with_fraction(sf.split_part(moment.cast("string"), sf.lit(" "), sf.lit(2)), _DIGITS["ms"])
    return column.cast("string")


def cast(column: Column, have: DataType, want: DataType) -> Column:
    """The column as another type; a time with and without a zone are the same in UTC, whatever the session's zone."""
    if have == want:
        return column
    if isinstance(have, TimestampType) and isinstance(want, TimestampNTZType):
        return _after_epoch(column.cast("decimal(18,6)"))
    if isinstance(have, TimestampNTZType) and isinstance(want, TimestampType):
        return sf.concat(column.cast("string"), sf.lit("Z")).cast(want)
    return column.cast(want)


def _pair(pair: Column, kind: pa.MapType, change: object) -> Column:
    assert callable(change)
    key, value = change(pair.getField("key"), kind.key_type), change(pair.getField("value"), kind.item_type)
    return sf.struct(key.alias("key"), value.alias("value"))


def _after_epoch(seconds: Column) -> Column:
    """The moment without a zone so many seconds (decimal(18,6)) after 1970; the session's time zone has no say."""
    none = sf.lit(0)
    return sf.lit(_EPOCH).cast("timestamp_ntz") + sf.make_dt_interval(none, none, none, seconds)


def _with_fraction(text: Column, digits: int) -> Column:
    """A time as text with so many digits behind the point; Spark leaves trailing zeros out."""
    whole, fraction = (sf.split_part(text, sf.lit("."), sf.lit(part)) for part in (1, 2))
    return sf.concat(whole, sf.lit("."), sf.rpad(fraction, digits, "0")) if digits else whole


def _changes(kind: pa.DataType) -> bool:
    """Whether a column does not go into JSON as it is."""
    if pa.types.is_map(kind):
        return not pa.types.is_string(kind.key_type) or _changes(kind.item_type)
    if pa.types.is_struct(kind):
        return any(_changes(f.type) for f in kind)
    return _changes(kind.value_type) if pa.types.is_list(kind) else _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    """Whether JSON has values of this type as text although they are none."""
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    return bool(is_time or pa.types.is_decimal(kind) or _is_bytes(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))
