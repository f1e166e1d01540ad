"""Which type a column may change to: the casts with which readers read its older files (format sheet 3.2)."""

from __future__ import annotations

from typing import Final

from lakelog.spec.types import MAX_LENGTH, ArrayType, AtomicType, DataType, MapType, RowType

_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_NUMBERS: Final = (*_WHOLE, "FLOAT", "DOUBLE", "DECIMAL")
_TEXTS: Final = ("CHAR", "VARCHAR")
_BYTES: Final = ("BINARY", "VARBINARY")
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_TIMES: Final = ("DATE", "TIME", *_TIMESTAMPS)
_TO_TEXT: Final = (*_NUMBERS, *_BYTES, *_TIMES, "BOOLEAN", "ARRAY", "MAP", "ROW")

_IMPLICIT: Final[dict[str, tuple[str, ...]]] = {
    "CHAR": ("CHAR",),
    "VARCHAR": _TEXTS,
    "BOOLEAN": ("BOOLEAN",),
    "BINARY": ("BINARY",),
    "VARBINARY": _BYTES,
    "DECIMAL": _NUMBERS,
    "TINYINT": ("TINYINT",),
    "SMALLINT": ("TINYINT", "SMALLINT"),
    "INT": ("TINYINT", "SMALLINT", "INT"),
    "BIGINT": _WHOLE,
    "FLOAT": (*_WHOLE, "FLOAT", "DECIMAL"),
    "DOUBLE": _NUMBERS,
    "DATE": ("DATE", "TIMESTAMP"),
    "TIME": ("TIME", "TIMESTAMP"),
    "TIMESTAMP": _TIMESTAMPS,
    "TIMESTAMP_LTZ": _TIMESTAMPS,
}
"""New type → the old types that change to it without being asked twice."""

_EXPLICIT: Final[dict[str, tuple[str, ...]]] = {
    "CHAR": ("VARCHAR", *(root for root in _TO_TEXT if root not in _TIMES)),
    "VARCHAR": _TO_TEXT,
    "BOOLEAN": (*_WHOLE, *_TEXTS),
    "BINARY": ("VARBINARY", *_TEXTS),
    "VARBINARY": _TEXTS,
    "DECIMAL": ("BOOLEAN", *_TEXTS),
    "TINYINT": (*_NUMBERS, "BOOLEAN", *_TEXTS),
    "SMALLINT": (*_NUMBERS, "BOOLEAN", *_TEXTS),
    "INT": (*_NUMBERS, "BOOLEAN", *_TEXTS, *_TIMESTAMPS),
    "BIGINT": (*_NUMBERS, "BOOLEAN", *_TEXTS, *_TIMESTAMPS),
    "FLOAT": (*_NUMBERS, "BOOLEAN", *_TEXTS),
    "DOUBLE": ("BOOLEAN", *_TEXTS),
    "DATE": ("TIMESTAMP_LTZ", *_TEXTS),
    "TIME": ("TIMESTAMP_LTZ", *_TEXTS),
    "TIMESTAMP": ("INT", "BIGINT", *_TEXTS, "DATE", "TIME"),
    "TIMESTAMP_LTZ": ("INT", "BIGINT", *_TEXTS, "DATE", "TIME"),
}
"""New type → the old types whose values may lose something; refused with ``disable-explicit-type-casting``."""


def can_change_type(old: DataType, new: DataType, explicit: bool) -> bool:
    """Whether files with the old type can be read as the new one; NULL or not is no matter here.

    ``explicit`` takes casts too that may lose something (BIGINT → INT, STRING → DATE). An array, map or row can become
    text only: its parts are changed one by one, by their paths.
    """
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    if not isinstance(new, AtomicType):
        return False
    root = _root(old)
    if root in _TIMES and new.root == "VARCHAR" and new.length != MAX_LENGTH:
        return False  # readers write a time as text of any length only
    return root in _IMPLICIT.get(new.root, ()) or (explicit and root in _EXPLICIT.get(new.root, ()))


def types_after(old: DataType, explicit: bool) -> list[str]:
    """The roots of the types that a column of this type may change to, for messages."""
    root = _root(old)
    return [new for new in sorted(_IMPLICIT) if root in _IMPLICIT[new] or (explicit and root in _EXPLICIT[new])]


def _root(kind: DataType) -> str:
    if isinstance(kind, AtomicType):
        return kind.root
    return {ArrayType: "ARRAY", MapType: "MAP", RowType: "ROW"}.get(type(kind), "")
