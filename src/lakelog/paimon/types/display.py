"""Column types as one line of text, as the format's system tables show them."""

from __future__ import annotations

from lakelog.paimon.types.types import ArrayType, DataType, MapType, MultisetType, RowType, VectorType


def type_words(kind: DataType) -> str:
    """``INT NOT NULL``, ``MAP<STRING, INT>``, ``ROW<`a` INT>``."""
    suffix = "" if kind.nullable else " NOT NULL"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{type_words(kind.element)}>{suffix}"
    if isinstance(kind, MultisetType):
        return f"MULTISET<{type_words(kind.element)}>{suffix}"
    if isinstance(kind, MapType):
        return f"MAP<{type_words(kind.key)}, {type_words(kind.value)}>{suffix}"
    if isinstance(kind, VectorType):
        return f"VECTOR<{type_words(kind.element)}, {kind.length}>{suffix}"
    if isinstance(kind, RowType):
        fields = ", ".join(f"`{f.name}` {type_words(f.type)}" for f in kind.fields)
        return f"ROW<{fields}>{suffix}"
    return str(kind.to_json())
