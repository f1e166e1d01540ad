"""The bucket of a row by Spark's own expressions alone, for queries in which no Python may run.

Spark's ``hash`` is Murmur3 with the seed of the format, and of bytes in whole words it is the very hash of the format.
So all there is to do is to put the key's BinaryRow body together (format sheet 5), as hexadecimal text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

from lakelog.errors import UnsupportedFeature
from lakelog.options.table import BUCKET_FUNCTION
from lakelog.paimon.rows.binary_row import COMPACT_DECIMAL, head_size
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField

_WIDTHS: Final = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "TIME": 4, "BIGINT": 8}
"""Bytes of a number in its field; the others are 0."""
_BYTES: Final = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_INSIDE: Final = 7
"""Bytes of a text that lie in its field."""
_MOST_KEYS: Final = 56
"""Columns whose null bits fit into the head."""


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
            f"rows cannot be written to the log first by a bucket key with {what}: choose one of whole numbers, text, "
            f"bytes, dates or decimals up to {COMPACT_DECIMAL} digits, or one bucket"
        )
    return sf.abs(sf.hash(sf.unhex(_body([columns[key.name] for key in keys], keys))) % sf.lit(buckets))


def _is_known(key: DataField) -> bool:
    if not isinstance(key.type, AtomicType):
        return False
    root = key.type.root
    return root in _WIDTHS or root in _BYTES or (root == "DECIMAL" and (key.type.precision or 0) <= COMPACT_DECIMAL)


def _body(columns: Sequence[Column], keys: Sequence[DataField]) -> Column:
    """The row's bytes as hexadecimal text: head, fields, and what does not fit into them."""
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


def _text(given: Column, position: Column) -> tuple[Column, Column, Column]:
    """The field of a text, what it puts behind the fields, and where the next one puts it."""
    length = sf.octet_length(given)
    inside = sf.concat(sf.rpad(sf.hex(given), 2 * _INSIDE, "0"), sf.hex(length + sf.lit(0x80)))
    pointer = _little_endian(sf.shiftleft(position, 32) + length.cast("bigint"))
    is_long = sf.coalesce(length > sf.lit(_INSIDE), sf.lit(False))
    words = sf.ceil(length / sf.lit(8)).cast("int")
    more = sf.when(is_long, sf.rpad(sf.hex(given), words * sf.lit(16), "0")).otherwise(sf.lit(""))
    next_position = sf.when(is_long, position + words.cast("bigint") * sf.lit(8)).otherwise(position)
    return sf.when(is_long, pointer).otherwise(inside), more, next_position


def _little_endian(number: Column) -> Column:
    """A bigint as 16 hexadecimal digits, its lowest byte first."""
    digits = sf.lpad(sf.hex(number), 16, "0")
    return sf.regexp_replace(sf.reverse(digits), "(.)(.)", "$2$1")
