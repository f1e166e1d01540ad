"""Columns with VARIANT values: their Arrow type, and the same rows with JSON texts in place of the values."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lakelog.paimon.types.variant_bytes import from_json, to_json

MARK: Final = {"variant": "true"}
"""Metadata of the field ``metadata`` that marks a VARIANT, as in Spark."""
VARIANT: Final = pa.struct(
    [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, metadata=MARK)]
)
"""The Arrow type of VARIANT. Arrow compares types without metadata: ask ``is_variant``, not ``==``."""


def is_variant(kind: pa.DataType) -> bool:
    """True for the Arrow type of VARIANT."""
    if not pa.types.is_struct(kind) or kind.num_fields != 2 or kind.get_field_index("metadata") < 0:
        return False
    return (kind.field("metadata").metadata or {}).get(b"variant") == b"true"


def has_variant(kind: pa.DataType) -> bool:
    """True for a type that is VARIANT or contains one."""
    return is_variant(kind) or any(has_variant(kind.field(i).type) for i in range(kind.num_fields))


def json_texts(column: pa.Array, exact: bool = False) -> pa.Array:
    """The JSON texts of a VARIANT column; see ``variant_bytes.to_json``. Raises Corrupt."""
    values, metadata = column.field("value").to_pylist(), column.field("metadata").to_pylist()
    there = column.is_valid().to_pylist()
    texts = [to_json(v, m, exact) if t else None for v, m, t in zip(values, metadata, there, strict=True)]
    return pa.array(texts, pa.string())


def from_json_texts(texts: pa.Array) -> pa.Array:
    """A VARIANT column of JSON texts; NULL stays NULL. Raises InvalidRequest."""
    return variant_array([None if text is None else from_json(text) for text in texts.to_pylist()])


def variant_array(values: list[tuple[bytes, bytes] | None]) -> pa.Array:
    """A VARIANT column of (value, metadata)."""
    parts: list[Any] = [pa.array([b"" if part is None else part[i] for part in values], pa.binary()) for i in range(2)]
    mask = pa.array([part is None for part in values], pa.bool_())
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=mask)
