"""Conversion of columns to and from the log's JSON with Spark's own expressions, type by type.

It matches ``logstore.json_rows``, which works without Spark. Queries under a real-time trigger use it, because they
cannot run Python. Types are Arrow's, those of the table; the result of ``decoded`` has the type of ``spark_schema``.

Also computes the bucket of a row with Spark's own expressions. Spark's ``hash`` is Murmur3 with the seed of the format,
and for bytes in whole words it equals the hash of the format. The module only has to build the key's BinaryRow body
(format sheet 5), as hexadecimal text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

from lakelog.errors import UnsupportedFeature
from lakelog.options.table import BUCKET_FUNCTION
from lakelog.paimon.rows.binary_row import COMPACT_DECIMAL, head_size
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField
from lakelog.paimon.types.variant import has_variant, is_variant
from lakelog.spark.runtime.types import spark_schema

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EPOCH: Final = "1970-01-01 00:00:00"
_WIDTHS: Final = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "TIME": 4, "BIGINT": 8}
"""Bytes of a number in its field; the others are 0."""
_BYTES: Final = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_INSIDE: Final = 7
"""Maximum bytes of a text stored in its field."""
_MOST_KEYS: Final = 56
"""Maximum number of columns whose null bits fit into the head."""


def spark_type(kind: pa.DataType) -> DataType:
    """Spark's type for a column of this type."""
    return spark_schema(pa.schema([("", kind)]))[0].dataType


def json_type(kind: pa.DataType) -> DataType:
    """The type with which ``from_json`` reads a column before ``decoded`` converts it."""
    if _is_text(kind) or is_variant(kind):
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
    """A column from ``from_json`` (``json_type``), converted to its own type.

    Text that does not fit fails the query (or is NULL if ``spark.sql.ansi.enabled`` is false).
    """
    if not _changes(kind):
        return column
    if is_variant(kind):
        return sf.parse_json(column)
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
    """A column of ``spark_type(kind)`` in the input form of ``to_json``."""
    if not _changes(kind):
        return column
    if has_variant(kind):
        raise UnsupportedFeature(
            "log-first writes do not support VARIANT columns: Spark's own functions write a double as a decimal. Write "
            "the rows with write_stream"
        )
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
    """The column as another type; conversions of times with and without a zone use UTC, not the session's zone."""
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
    """The time without a zone at these seconds (decimal(18,6)) after 1970, regardless of the session's time zone."""
    none = sf.lit(0)
    return sf.lit(_EPOCH).cast("timestamp_ntz") + sf.make_dt_interval(none, none, none, seconds)


def _with_fraction(text: Column, digits: int) -> Column:
    """A time as text with this number of fractional digits; Spark omits trailing zeros."""
    whole, fraction = (sf.split_part(text, sf.lit("."), sf.lit(part)) for part in (1, 2))
    return sf.concat(whole, sf.lit("."), sf.rpad(fraction, digits, "0")) if digits else whole


def _changes(kind: pa.DataType) -> bool:
    """True if a column needs a conversion for JSON."""
    if is_variant(kind):
        return True
    if pa.types.is_map(kind):
        return not pa.types.is_string(kind.key_type) or _changes(kind.item_type)
    if pa.types.is_struct(kind):
        return any(_changes(f.type) for f in kind)
    return _changes(kind.value_type) if pa.types.is_list(kind) else _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    """True if JSON represents non-text values of this type as text."""
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    return bool(is_time or pa.types.is_decimal(kind) or _is_bytes(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def bucket_column(columns: Mapping[str, Column], schema: TableSchema) -> Column:
    """The bucket (int) of rows with these columns of the table's types.

    Raises UnsupportedFeature for a bucket key, or a function of it, that Spark cannot hash by itself.
    """
    buckets = schema.num_buckets
    if buckets < 2:
        return sf.lit(0)
    keys = schema.select(schema.bucket_keys)
    function = schema.options.get(BUCKET_FUNCTION.key, BUCKET_FUNCTION.default)
    if function == "mod":
        return sf.pmod(columns[keys[0].name].cast("bigint"), sf.lit(buckets)).cast("int")
    wrong = [key for key in keys if not _is_known(key)]
    if function != BUCKET_FUNCTION.default or wrong or len(keys) > _MOST_KEYS:
        what = f"column '{wrong[0].name}' of type {wrong[0].type.to_json()}" if wrong else f"'{function}'"
        raise UnsupportedFeature(
            f"log-first writes do not support a bucket key with {what}: choose a key of integers, text, bytes, dates "
            f"or decimals of at most {COMPACT_DECIMAL} digits, or use one bucket"
        )
    return sf.abs(sf.hash(sf.unhex(_body([columns[key.name] for key in keys], keys))) % sf.lit(buckets))


def _is_known(key: DataField) -> bool:
    if not isinstance(key.type, AtomicType):
        return False
    root = key.type.root
    return root in _WIDTHS or root in _BYTES or (root == "DECIMAL" and (key.type.precision or 0) <= COMPACT_DECIMAL)


def _body(columns: Sequence[Column], keys: Sequence[DataField]) -> Column:
    """The row's bytes as hexadecimal text: head, fields, and the variable-length part."""
    zero = sf.lit(0).cast("bigint")
    head, slots, rest = zero, [], []
    position = sf.lit(head_size(len(keys)) + 8 * len(keys)).cast("bigint")
    for number, (column, key) in enumerate(zip(columns, keys, strict=True)):
        if key.type.nullable:
            head = head + sf.when(column.isNull(), sf.lit(1 << (number + 8)).cast("bigint")).otherwise(zero)
        assert isinstance(key.type, AtomicType)
        if key.type.root in _BYTES:
            slot, more, position = _text(column.cast("binary"), position)
            rest.append(sf.coalesce(more, sf.lit("")))
        else:
            slot = _little_endian(_number(column, key.type))
        slots.append(sf.coalesce(slot, sf.lit("0" * 16)))
    return sf.concat(_little_endian(head), *slots, *rest)


def _number(column: Column, kind: AtomicType) -> Column:
    if kind.root == "DECIMAL":
        return (column * sf.lit(10 ** (kind.scale or 0)).cast("decimal(19,0)")).cast("bigint")
    number = (sf.unix_date(column) if kind.root == "DATE" else column).cast("bigint")
    width = _WIDTHS[kind.root]
    return number if width == 8 else number.bitwiseAND(sf.lit((1 << 8 * width) - 1).cast("bigint"))


def _text(column: Column, position: Column) -> tuple[Column, Column, Column]:
    """The field of a text, its variable-length part, and the position for the next one."""
    length = sf.octet_length(column)
    inside = sf.concat(sf.rpad(sf.hex(column), 2 * _INSIDE, "0"), sf.hex(length + sf.lit(0x80)))
    pointer = _little_endian(sf.shiftleft(position, 32) + length.cast("bigint"))
    is_long = sf.coalesce(length > sf.lit(_INSIDE), sf.lit(False))
    words = sf.ceil(length / sf.lit(8)).cast("int")
    more = sf.when(is_long, sf.rpad(sf.hex(column), words * sf.lit(16), "0")).otherwise(sf.lit(""))
    next_position = sf.when(is_long, position + words.cast("bigint") * sf.lit(8)).otherwise(position)
    return sf.when(is_long, pointer).otherwise(inside), more, next_position


def _little_endian(number: Column) -> Column:
    """A bigint as 16 hexadecimal digits, its lowest byte first."""
    digits = sf.lpad(sf.hex(number), 16, "0")
    return sf.regexp_replace(sf.reverse(digits), "(.)(.)", "$2$1")
