"""Column types as a person writes them in SQL."""

from __future__ import annotations

from lakelog.spec.types import ArrayType, DataType, MapType, MultisetType, RowType, VectorType


def type_text(kind: DataType) -> str:
    """``'array<int>'``, ``'struct<x: int, y: string> not null'``; lower case, for DESCRIBE and for error texts."""
    return _body(kind) + ("" if kind.nullable else " not null")


def _body(kind: DataType) -> str:
    if isinstance(kind, ArrayType):
        return f"array<{type_text(kind.element)}>"
    if isinstance(kind, MultisetType):
        return f"multiset<{type_text(kind.element)}>"
    if isinstance(kind, MapType):
        return f"map<{type_text(kind.key)}, {type_text(kind.value)}>"
    if isinstance(kind, VectorType):
        return f"vector<{type_text(kind.element)}, {kind.length}>"
    if isinstance(kind, RowType):
        return f"struct<{', '.join(f'{f.name}: {type_text(f.type)}' for f in kind.fields)}>"
    return str(kind.with_nullable(True).to_json()).lower()
