"""Lengths of VARCHAR(n) and CHAR(n) columns: longer text is refused, CHAR is padded, as by Spark."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema
from lakelog.paimon.types.arrow import fresh_offsets
from lakelog.paimon.types.types import MAX_LENGTH, ArrayType, AtomicType, DataType, MapType, RowType

_TEXTS: Final = ("VARCHAR", "CHAR")
_SHOWN: Final = 60
"""Maximum number of characters of a value in an error."""


def fit_text(column: pa.Array, kind: DataType, padded: int | None, name: str, table: str) -> pa.Array:
    """The column with texts that fit its type; ``padded`` is the length to which spaces fill them up, None for none.

    Spaces at the end beyond the length are removed. Raises InvalidSchema for longer text, with the value; inside of
    arrays, maps and structs, too, where nothing is removed or padded.
    """
    if isinstance(kind, AtomicType):
        if kind.root not in _TEXTS or (length := kind.length or MAX_LENGTH) == MAX_LENGTH:
            return column
        column = _cut(column, kind, length, name, table)
        return column if padded is None else pc.utf8_rpad(column, padded, " ")
    _check_parts(column, kind, name, table)
    return column


def _check_parts(column: pa.Array, kind: DataType, name: str, table: str) -> None:
    if isinstance(kind, AtomicType):
        if kind.root in _TEXTS and kind.length not in (None, MAX_LENGTH):
            _cut(column, kind, kind.length or MAX_LENGTH, name, table)
    elif isinstance(kind, RowType) and _has_length(kind):
        for part, field in zip(column.flatten(), kind.fields, strict=True):
            _check_parts(part, field.type, f"{name}.{field.name}", table)
    elif isinstance(kind, ArrayType) and _has_length(kind):
        _check_parts(column.flatten(), kind.element, name, table)
    elif isinstance(kind, MapType) and _has_length(kind):
        _, start, stop = fresh_offsets(column)
        _check_parts(column.keys.slice(start, stop - start), kind.key, name, table)
        _check_parts(column.items.slice(start, stop - start), kind.value, name, table)


def _has_length(kind: DataType) -> bool:
    if isinstance(kind, RowType):
        return any(_has_length(field.type) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_length(kind.element)
    if isinstance(kind, MapType):
        return _has_length(kind.key) or _has_length(kind.value)
    return isinstance(kind, AtomicType) and kind.root in _TEXTS and kind.length not in (None, MAX_LENGTH)


def _cut(column: pa.Array, kind: AtomicType, length: int, name: str, table: str) -> pa.Array:
    """Texts without the spaces after ``length``."""
    if not len(column) or (pc.max(pc.binary_length(column)).as_py() or 0) <= length:  # a character has 1 to 4 bytes
        return column
    is_long = pc.greater(pc.utf8_length(column), length)
    if not pc.any(is_long).as_py():
        return column
    too_long = pc.greater(pc.utf8_length(pc.utf8_rtrim(column, " ")), length)
    if pc.any(too_long).as_py():
        row = pc.index(too_long, pa.scalar(True)).as_py()
        text = column[row].as_py()
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise InvalidSchema(
            f"column '{name}' of table {table} is {kind.root.lower()}({length}), but '{shown}' (row {row} of a batch) "
            f"has {len(text)} characters: shorten it, or make the column longer"
        )
    return pc.if_else(is_long, pc.utf8_slice_codeunits(column, 0, length), column)
