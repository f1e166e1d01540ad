"""Columns that the format adds to the files of a table with a primary key (format sheet 6.1, 6.2)."""

from __future__ import annotations

from typing import Final

from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField

KEY_PREFIX: Final = "_KEY_"
KEY_ID_OFFSET: Final = 1073741823

SEQUENCE_NUMBER: Final = DataField(2147483646, "_SEQUENCE_NUMBER", AtomicType("BIGINT", False))
VALUE_KIND: Final = DataField(2147483645, "_VALUE_KIND", AtomicType("TINYINT", False))


def key_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """``_KEY_<name>`` of each trimmed primary key column, NOT NULL, in key order."""
    return tuple(
        DataField(KEY_ID_OFFSET + f.id, KEY_PREFIX + f.name, f.type.with_nullable(False))
        for f in schema.select(schema.trimmed_primary_keys)
    )


def file_fields(schema: TableSchema, thin: bool = False) -> tuple[DataField, ...]:
    """The columns of a data file, in file order: key copies (not when ``thin``), sequence number, row kind, columns.

    A table without a primary key has its own columns only.
    """
    if not schema.is_keyed:
        return schema.fields
    return (*(() if thin else key_fields(schema)), SEQUENCE_NUMBER, VALUE_KIND, *schema.fields)
