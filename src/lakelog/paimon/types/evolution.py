"""Values of a column as its type is now, whatever it was when they were written (format sheet 3.2)."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema, UnsupportedFeature
from lakelog.paimon.types.arrow import arrow_type, fresh_offsets, map_array
from lakelog.paimon.types.casts import can_cast, cast_values
from lakelog.paimon.types.types import MAX_LENGTH, ArrayType, AtomicType, DataType, MapType, RowType

_TEXTS: Final = ("CHAR", "VARCHAR")
_BYTES: Final = ("BINARY", "VARBINARY")
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_EXACT: Final[dict[str, tuple[str, ...]]] = {
    "FLOAT": ("TINYINT", "SMALLINT", "FLOAT"),
    "DOUBLE": ("TINYINT", "SMALLINT", "INT", "FLOAT", "DOUBLE"),
}
"""Floating-point type → the types whose numbers it all has."""
_WITH_TEXT: Final = ("BOOLEAN", *_DIGITS, "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", *_TIMESTAMPS)
"""The types whose values each have a text of their own."""


def same_type(one: DataType, other: DataType) -> bool:
    """True if values are the same, regardless of NOT NULL."""
    return one.with_nullable(True) == other.with_nullable(True)


def evolve(column: pa.Array, old: DataType, new: DataType, name: str) -> pa.Array:
    """A column written with type ``old`` as one of type ``new``.

    Called per batch of a file with another schema. Fields of a ROW are found by id: new ones are NULL, dropped ones
    are omitted, and a ROW without any common field is NULL. Atomic types are cast as the format's own readers do
    (``casts.cast_values``). Raises UnsupportedFeature for a change that the format does not allow, InvalidSchema for a
    value that cannot be read as the new type.
    """
    if not _has_common(old, new):
        return pa.nulls(len(column), arrow_type(new))
    if isinstance(old, RowType) and isinstance(new, RowType):
        return _row(column, old, new, name)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return _array(column, old, new, name)
    if isinstance(old, MapType) and isinstance(new, MapType):
        return _map(column, old, new, name)
    if same_type(old, new):
        target = arrow_type(new)
        return column if column.type == target else column.cast(target)
    return cast_values(column, old, new, name)


def as_before(column: pa.Array, new: DataType, old: DataType, name: str) -> pa.Array:
    """A column that was written after an ALTER TABLE, for a reader that knows the type of before it.

    Called per batch of a file whose schema is newer than that of the reader. Raises InvalidSchema for values that the
    old type does not have: ``evolve`` would make others of them.
    """
    if same_type(new, old) or not _has_common(new, old):
        return evolve(column, new, old, name)
    column_before, why = None, ""
    try:
        column_before = evolve(column, new, old, name)
        if _are_equal(evolve(column_before, old, new, name), column):
            return column_before
    except (UnsupportedFeature, InvalidSchema) as failure:
        why = f" ({failure})"
    raise InvalidSchema(
        f"column '{name}' was changed from {old.to_json()} to {new.to_json()} by another process, and has values "
        f"that do not fit the former type{why}: open the table again, or restart the query"
    )


def _are_equal(one: pa.Array, other: pa.Array) -> bool:
    """Whether two columns of one type have the same values; NaN is one."""
    if one.equals(other) or not pa.types.is_floating(one.type):
        return bool(one.equals(other))
    both = pc.and_(pc.is_nan(one), pc.is_nan(other))
    same = pc.fill_null(pc.or_(both, pc.equal(one, other)), True)
    return bool(one.is_null().equals(other.is_null()) and pc.all(same).as_py())


def _has_common(old: DataType, new: DataType) -> bool:
    """True if the old type and the new one have a common part."""
    if isinstance(old, RowType) and isinstance(new, RowType):
        by_id = {f.id: f.type for f in old.fields}
        return any(f.id in by_id and _has_common(by_id[f.id], f.type) for f in new.fields)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return _has_common(old.element, new.element)
    if isinstance(old, MapType) and isinstance(new, MapType):
        return _has_common(old.key, new.key) and _has_common(old.value, new.value)
    return True


def _row(column: pa.StructArray, old: RowType, new: RowType, name: str) -> pa.Array:
    target = arrow_type(new)
    sources = {f.id: (at, f.type) for at, f in enumerate(old.fields)}
    # with the NULLs of the row itself: under them a file may hold anything
    columns = column.flatten()
    parts = []
    for field in new.fields:
        kind = arrow_type(field.type)
        if field.id in sources:
            at, was = sources[field.id]
            parts.append(evolve(columns[at], was, field.type, f"{name}.{field.name}"))
        else:
            parts.append(pa.nulls(len(column), kind))
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)


def _array(column: pa.ListArray, old: ArrayType, new: ArrayType, name: str) -> pa.Array:
    offsets, start, stop = fresh_offsets(column)
    values = evolve(column.values.slice(start, stop - start), old.element, new.element, f"{name}.element")
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=arrow_type(new), mask=mask)


def _map(column: pa.MapArray, old: MapType, new: MapType, name: str) -> pa.Array:
    if not same_type(old.key, new.key):
        raise UnsupportedFeature(f"column '{name}' was written with another key type and cannot be read")
    offsets, start, stop = fresh_offsets(column)
    keys = evolve(column.keys.slice(start, stop - start), old.key, new.key, f"{name}.key")
    items = evolve(column.items.slice(start, stop - start), old.value, new.value, f"{name}.value")
    return map_array(offsets, keys, items, arrow_type(new), column.is_null() if column.null_count else None)


def can_change_type(old: DataType, new: DataType, explicit: bool) -> bool:
    """True if files with the old type can be read as the new one, regardless of NOT NULL.

    ``explicit`` allows casts that do not fit every value (BIGINT → INT, STRING → DATE). An array, map or row can become
    text only: its parts are changed one by one, by their paths.
    """
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    return can_cast(old, new) and (explicit or _has_all_values(old, new))


def types_after(old: DataType, explicit: bool) -> list[str]:
    """The roots of the types that a column of this type may change to, for messages."""
    scale = old.scale or 0 if isinstance(old, AtomicType) else 0
    sizes: dict[str, dict[str, Any]] = {
        **dict.fromkeys((*_TEXTS, *_BYTES), {"length": MAX_LENGTH}),
        **dict.fromkeys(("TIME", *_TIMESTAMPS), {"precision": 9}),
        "DECIMAL": {"precision": 38, "scale": scale},
    }
    roots = {*_WITH_TEXT, *_TEXTS, *_BYTES}
    kinds = (AtomicType(root, **sizes.get(root, {})) for root in sorted(roots))
    return [new.root for new in kinds if can_change_type(old, new, explicit)]


def _has_all_values(old: DataType, new: DataType) -> bool:
    """True if each value of the old type has one of its own in the new type."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    if new.root in _DIGITS:
        return _DIGITS.get(old.root, MAX_LENGTH) <= _DIGITS[new.root]
    if new.root in _EXACT:
        return old.root in _EXACT[new.root]
    if new.root == "DECIMAL":
        scale, digits = old.scale or 0, _DIGITS.get(old.root) or (old.precision or 0) - (old.scale or 0)
        room = (new.precision or 0) - (new.scale or 0)
        return old.root in ("DECIMAL", *_DIGITS) and scale <= (new.scale or 0) and digits <= room
    if new.root == "VARCHAR" and new.length == MAX_LENGTH and old.root in _WITH_TEXT:
        return True
    if new.root in _TIMESTAMPS and old.root in _TIMESTAMPS:
        return (old.precision or 0) <= (new.precision or 0)
    # longer or finer ones of a kind; the fixed lengths CHAR and BINARY become the others, which keep what fills them up
    kinds = {"VARCHAR": _TEXTS, "VARBINARY": _BYTES}.get(new.root, (new.root,))
    return old.root in kinds and (old.length or old.precision or 0) <= (new.length or new.precision or 0)
