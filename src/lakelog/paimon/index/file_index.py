"""The container of the indexes of one data file: column → kind of index → bytes (Paimon's file index format)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.errors import Corrupt

BLOOM_FILTER: Final = "bloom-filter"
INDEX_SUFFIX: Final = ".index"
"""Suffix of an index file's name, after the name of its data file."""

_MAGIC: Final = 1493475289347502
_VERSION: Final = 1
_FIXED: Final = struct.Struct(">qii")
_PLACE: Final = struct.Struct(">ii")
_EMPTY: Final = -1


@dataclass(frozen=True)
class IndexLocation:
    """Position of an index in its container; ``start`` is None if the column has no value."""

    start: int | None
    length: int


def encode_file_index(indexes: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """The container of the indexes of each column."""
    names = [(column, kind) for column, kinds in indexes.items() for kind in kinds]
    columns = sum(len(_text(column)) + 4 for column in indexes)
    length = _FIXED.size + 8 + columns + sum(len(_text(kind)) + _PLACE.size for _, kind in names)
    head, body = [_FIXED.pack(_MAGIC, _VERSION, length), struct.pack(">i", len(indexes))], b""
    for column, kinds in indexes.items():
        head += [_text(column), struct.pack(">i", len(kinds))]
        for kind, data in kinds.items():
            head += [_text(kind), _PLACE.pack(length + len(body), len(data))]
            body += data
    return b"".join(head) + struct.pack(">i", 0) + body


def read_file_index(read: Callable[[int, int], bytes]) -> dict[str, dict[str, IndexLocation]]:
    """The indexes in a container, by column and kind; ``read`` gives bytes by (start, length).

    Raises Corrupt for bytes that are no container, or one of another version.
    """
    try:
        magic, version, length = _FIXED.unpack(read(0, _FIXED.size))
        if (magic, version) != (_MAGIC, _VERSION):
            raise Corrupt(f"not a file index of version {_VERSION}: magic {magic}, version {version}")
        head = read(_FIXED.size, length - _FIXED.size)
        (columns,) = struct.unpack_from(">i", head)
        at = 4
        out: dict[str, dict[str, IndexLocation]] = {}
        for _ in range(columns):
            column, at = _text_at(head, at)
            (kinds,) = struct.unpack_from(">i", head, at)
            at += 4
            of_column = out.setdefault(column, {})
            for _ in range(kinds):
                kind, at = _text_at(head, at)
                start, size = _PLACE.unpack_from(head, at)
                of_column[kind] = IndexLocation(None if start == _EMPTY else start, size)
                at += _PLACE.size
    except (struct.error, UnicodeDecodeError) as why:
        raise Corrupt(f"not a sound file index: {why}") from None
    return out


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _text_at(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">H", data, at)
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size
