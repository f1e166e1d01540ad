"""The messages of PostgreSQL's output plugin ``pgoutput``, protocol version 1, as values. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from lakelog.errors import Corrupt

_BEGIN: Final = struct.Struct(">qqI")
_COMMIT: Final = struct.Struct(">Bqqq")
_INT: Final = struct.Struct(">I")
_SHORT: Final = struct.Struct(">H")
_RELATION_COLUMN: Final = struct.Struct(">Ii")
_EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970, from which PostgreSQL counts."""


class Unchanged:
    """A large value (TOAST) that an update has not changed, and that the message therefore lacks."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()
Value = bytes | None | Unchanged
"""PostgreSQL's text of a value in UTF-8, None for NULL."""


@dataclass(frozen=True)
class Begin:
    """Start of a transaction: the LSN of its commit record, and its time in microseconds since 1970."""

    final_lsn: int
    time_us: int


@dataclass(frozen=True)
class Commit:
    """End of a transaction: the LSN of its commit record, and the one after it."""

    lsn: int
    end_lsn: int
    time_us: int


@dataclass(frozen=True)
class RelationColumn:
    """A column: its name, the id and the modifier of its type, and whether it identifies the row."""

    name: str
    type_id: int
    modifier: int
    is_key: bool


@dataclass(frozen=True)
class Relation:
    """A table and its columns as of the changes that follow. ``identity`` is d, n, f or i, as in ``pg_class``."""

    id: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True)
class Insert:
    """A new row."""

    relation: int
    new: list[Value]


@dataclass(frozen=True)
class Update:
    """A changed row; ``old`` is its key if that has changed, the whole row with REPLICA IDENTITY FULL, else None."""

    relation: int
    old: list[Value] | None
    new: list[Value]


@dataclass(frozen=True)
class Delete:
    """A deleted row: its key, or the whole row."""

    relation: int
    old: list[Value]


@dataclass(frozen=True)
class Truncate:
    """Tables that were emptied."""

    relations: tuple[int, ...]


@dataclass(frozen=True)
class Other:
    """A message without a change: type, origin, or a logical message."""

    kind: str


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | Other


def decode(data: bytes) -> Message:
    """One message. Raises Corrupt for one that is cut off or unknown."""
    try:
        return _decode(data)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as why:
        raise Corrupt(f"a message of pgoutput that starts with {data[:20]!r} cannot be read: {why}") from why


def _decode(data: bytes) -> Message:
    kind = data[:1]
    if kind == b"I":
        _expect(data, 5, b"N")
        return Insert(_INT.unpack_from(data, 1)[0], _values(data, 6)[0])
    if kind == b"U":
        relation, at, old = _INT.unpack_from(data, 1)[0], 5, None
        if data[5:6] in (b"K", b"O"):
            old, at = _values(data, 6)
        _expect(data, at, b"N")
        return Update(relation, old, _values(data, at + 1)[0])
    if kind == b"D":
        if data[5:6] not in (b"K", b"O"):
            raise ValueError(f"a delete without a key or a row: {data[5:6]!r}")
        return Delete(_INT.unpack_from(data, 1)[0], _values(data, 6)[0])
    if kind == b"B":
        final_lsn, time_us, _ = _BEGIN.unpack_from(data, 1)
        return Begin(final_lsn, time_us + _EPOCH_US)
    if kind == b"C":
        _, lsn, end_lsn, time_us = _COMMIT.unpack_from(data, 1)
        return Commit(lsn, end_lsn, time_us + _EPOCH_US)
    if kind == b"R":
        return _relation(data)
    if kind == b"T":
        count = _INT.unpack_from(data, 1)[0]
        return Truncate(struct.unpack_from(f">{count}I", data, 6))
    if kind in (b"Y", b"O", b"M"):
        return Other(kind.decode())
    raise ValueError("its kind is unknown")


def _expect(data: bytes, at: int, kind: bytes) -> None:
    if data[at : at + 1] != kind:
        raise ValueError(f"{data[at : at + 1]!r} at {at} is not {kind!r}")


def _values(data: bytes, at: int) -> tuple[list[Value], int]:
    """The values of a row, and the place after it."""
    (count,) = _SHORT.unpack_from(data, at)
    at += 2
    out: list[Value] = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t
            (length,) = _INT.unpack_from(data, at)
            at += 4
            out.append(data[at : at + length])
            at += length
        elif kind == 0x6E:  # n
            out.append(None)
        elif kind == 0x75:  # u
            out.append(UNCHANGED)
        else:
            raise ValueError(f"{kind} is not a kind of value")
    if at > len(data):
        raise ValueError("it is cut off")
    return out, at


def _relation(data: bytes) -> Relation:
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _SHORT.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        type_id, modifier = _RELATION_COLUMN.unpack_from(data, at)
        at += 8
        columns.append(RelationColumn(column, type_id, modifier, bool(flags & 1)))
    return Relation(_INT.unpack_from(data, 1)[0], schema or "pg_catalog", name, identity, tuple(columns))


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1
