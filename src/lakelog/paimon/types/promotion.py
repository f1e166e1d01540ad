"""Which type a column may change to: the casts with which readers read its older files (format sheet 3.2)."""

from __future__ import annotations

from typing import Final

from lakelog.paimon.types.casts import can_cast
from lakelog.paimon.types.types import MAX_LENGTH, AtomicType, DataType

_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_NUMBERS: Final = (*_WHOLE, "FLOAT", "DOUBLE", "DECIMAL")
_TEXTS: Final = ("CHAR", "VARCHAR")
_BYTES: Final = ("BINARY", "VARBINARY")
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")

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
"""New type → the old types that change to it without being asked twice; all other casts may lose something."""


def can_change_type(old: DataType, new: DataType, explicit: bool) -> bool:
    """Whether files with the old type can be read as the new one; NULL or not is no matter here.

    ``explicit`` takes casts too that may lose something (BIGINT → INT, STRING → DATE). An array, map or row can become
    text only: its parts are changed one by one, by their paths.
    """
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    return can_cast(old, new) and (explicit or _is_implicit(old, new))


def types_after(old: DataType, explicit: bool) -> list[str]:
    """The roots of the types that a column of this type may change to, for messages."""
    lengths = dict.fromkeys((*_TEXTS, *_BYTES), MAX_LENGTH)
    found = (AtomicType(root, length=lengths.get(root)) for root in sorted(_IMPLICIT))
    return [new.root for new in found if can_change_type(old, new, explicit)]


def _is_implicit(old: DataType, new: DataType) -> bool:
    return isinstance(old, AtomicType) and isinstance(new, AtomicType) and old.root in _IMPLICIT.get(new.root, ())
