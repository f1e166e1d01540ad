"""Rows of metadata as the text that the format's own system tables show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from lakelog.paimon.rows.binary_row import arity_of, decode_row
from lakelog.paimon.rows.partition import decode_partition, internal_text, partition_types, sql_text
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataType


def partition_text(partition: bytes, schema: TableSchema) -> str:
    """A partition as ``{2024-01-01, 7}``, ``{}`` without partitions."""
    values = decode_partition(partition, schema)
    texts = [cast_text(value, kind) for value, kind in zip(values, partition_types(schema), strict=True)]
    return "{" + ", ".join("null" if text is None else text for text in texts) + "}"


def partition_path(
    partition: bytes, schema: TableSchema, default_name: str, zone: tzinfo | None = None, blank_name: str | None = None
) -> str:
    """A partition as ``dt=2024-01-01/h=7``, nothing escaped; a time with a zone as the wall clock of ``zone``.

    ``default_name`` stands for NULL, and ``blank_name`` for a text of blanks alone, which is itself without one.
    """
    values = decode_partition(partition, schema)
    texts = [cast_text(value, kind, zone) for value, kind in zip(values, partition_types(schema), strict=True)]
    pairs = zip(schema.partition_keys, texts, strict=True)
    shown: dict[str | None, str] = {None: default_name} if blank_name is None else {None: default_name, "": blank_name}
    return "/".join(f"{key}={shown.get(text and text.strip(), text)}" for key, text in pairs)


def key_text(key: bytes, types: Sequence[DataType]) -> str | None:
    """A smallest or largest key as ``[1, a]``; None for a table without keys."""
    if arity_of(key) <= 0:
        return None
    values = decode_row(key, types)
    return "[" + ", ".join(value_text(v, k) for v, k in zip(values, types, strict=True)) + "]"


def map_text(values: dict[str, str]) -> str:
    """``{a=1, b=2}``, by name."""
    return "{" + ", ".join(f"{name}={values[name]}" for name in sorted(values)) + "}"


def value_text(value: Any, kind: DataType) -> str:
    """A value as it is kept: a date is its number of days, a time its milliseconds; bytes in hexadecimal."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return "null" if value is None else internal_text(value, kind)


def cast_text(value: Any, kind: DataType, zone: tzinfo | None = None) -> str | None:
    """A value as SQL casts it to text; a time with a zone as the wall clock of ``zone``, or of this machine's."""
    if isinstance(kind, AtomicType) and kind.root == "TIMESTAMP_LTZ":
        kind = AtomicType("TIMESTAMP", precision=kind.precision)
        value = value.astimezone(zone).replace(tzinfo=None) if isinstance(value, datetime) else value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else sql_text(value, kind)
