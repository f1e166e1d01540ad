"""Finds and changes a column, or a part inside one, by its path of names (format sheet 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lakelog.errors import InvalidSchema, did_you_mean
from lakelog.paimon.types.types import ArrayType, DataField, DataType, MapType, RowType

Path = tuple[str, ...]
"""``("address", "city")``; the element of an array is named ``element``, the value of a map ``value``."""

Fields = tuple[DataField, ...]

PART_ID: Final = -1
"""The id of an ``element`` or ``value`` while it is edited like a field; it has none of its own."""


def path_text(path: Path) -> str:
    """``address.city``."""
    return ".".join(path)


def index_of(fields: Fields, path: Path) -> int:
    """The place of the last name of a path among its siblings. Raises InvalidSchema with the nearest name."""
    names = [f.name for f in fields]
    if path[-1] in names:
        return names.index(path[-1])
    hint = did_you_mean(path[-1], names, ".", prefix="".join(f"{part}." for part in path[:-1]))
    where = "The table" if len(path) == 1 else f"'{path_text(path[:-1])}'"
    raise InvalidSchema(f"there is no column '{path_text(path)}'{hint} {where} has: {', '.join(names)}")


def has_path(fields: Fields, path: Path) -> bool:
    """True if a column exists."""
    try:
        edit_field(fields, path, lambda field: field)
    except InvalidSchema:
        return False
    return True


def edit_siblings(fields: Fields, path: Path, edit: Callable[[Fields], Fields], depth: int = 0) -> Fields:
    """The fields with ``edit`` done to the row that the last name of the path is in, or would be in.

    Raises InvalidSchema for a path that leads nowhere.
    """
    if depth == len(path) - 1:
        return edit(fields)
    at = index_of(fields, path[: depth + 1])
    field = fields[at]
    inner = _edit_type(field.type, path, edit, depth + 1)
    return (*fields[:at], replace(field, type=inner), *fields[at + 1 :])


def edit_field(fields: Fields, path: Path, change: Callable[[DataField], DataField]) -> Fields:
    """The fields with ``change`` done to the one at the path."""

    def edit(siblings: Fields) -> Fields:
        at = index_of(siblings, path)
        return (*siblings[:at], change(siblings[at]), *siblings[at + 1 :])

    return edit_siblings(fields, path, edit)


def _edit_type(kind: DataType, path: Path, edit: Callable[[Fields], Fields], depth: int) -> DataType:
    if isinstance(kind, RowType):
        return replace(kind, fields=edit_siblings(kind.fields, path, edit, depth))
    if isinstance(kind, ArrayType):
        return replace(kind, element=_edit_part(kind.element, "element", path, edit, depth))
    if isinstance(kind, MapType):
        return replace(kind, value=_edit_part(kind.value, "value", path, edit, depth))
    raise InvalidSchema(
        f"there is no column '{path_text(path)}': '{path_text(path[:depth])}' is {kind.to_json()} and has no fields"
    )


def _edit_part(part: DataType, name: str, path: Path, edit: Callable[[Fields], Fields], depth: int) -> DataType:
    """Edits the element of an array or the value of a map, whose name in the path is that of a field."""
    if path[depth] != name:
        raise InvalidSchema(
            f"there is no column '{path_text(path)}': write '{path_text((*path[:depth], name))}' for its elements"
        )
    if depth < len(path) - 1:
        return _edit_type(part, path, edit, depth + 1)
    changed = edit((DataField(PART_ID, name, part),))
    if len(changed) != 1 or changed[0].name != name:
        raise InvalidSchema(f"'{path_text(path)}' cannot be added, dropped or renamed: it is an element of its column")
    return changed[0].type
