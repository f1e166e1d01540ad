"""What the pages of a Parquet file unpack to, from their headers: known before anything is unpacked.

Source: Apache Parquet's ``parquet.thrift`` (PageHeader) and Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import Corrupt

_UNPACKED, _PACKED, _PLAIN_HEADER, _DICTIONARY_HEADER, _HEADER_V2 = 2, 3, 5, 7, 8
"""Fields of a page header: the two sizes, then the header of the kind of page."""
_ENCODING: Final = {_PLAIN_HEADER: 2, _DICTIONARY_HEADER: 2, _HEADER_V2: 4}
_STRUCT: Final = 12
_HEAD_BYTES: Final = 512
_MOST_HEAD_BYTES: Final = 16 << 20
_MOST_DEPTH: Final = 16


@dataclass(frozen=True)
class Page:
    """A page of a column: bytes packed and unpacked, values with NULL, the number of the encoding of its values."""

    packed: int
    unpacked: int
    values: int
    encoding: int
    is_dictionary: bool


def pages_of(source: pa.NativeFile, start: int, stop: int, values: int) -> Iterator[Page]:
    """The pages in a range of a file, up to the number of values of their column. Raises Corrupt."""
    seen = 0
    while start < stop and seen < values:
        header, size = _header(source, start)
        kind = next((kind for kind in _ENCODING if kind in header), None)
        about = {} if kind is None else header[kind]
        try:
            found = header[_PACKED], header[_UNPACKED], about.get(1, 0), about.get(_ENCODING.get(kind or 0), 0)
            if min(found) < 0:
                raise Corrupt(f"a page at {start} has a negative size: {found}")
        except (KeyError, TypeError) as why:
            raise Corrupt(f"the header of a page at {start} lacks {why}") from None
        page = Page(*found, is_dictionary=kind == _DICTIONARY_HEADER)
        seen += 0 if page.is_dictionary else page.values
        start += size + page.packed
        yield page


def _header(source: pa.NativeFile, start: int) -> tuple[dict[int, Any], int]:
    """The header of a page, and its bytes."""
    length = _HEAD_BYTES
    while True:
        data = source.read_at(length, start)
        try:
            return _struct(data, 0, 0)
        except (IndexError, struct.error):
            # statistics with long values make it long
            if len(data) < length or length >= _MOST_HEAD_BYTES:
                raise Corrupt(f"the header of a page at {start} does not end") from None
            length *= 32


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > _MOST_DEPTH:
        raise Corrupt("the header of a page is nested too deeply")
    out: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            coded, at = _varint(data, at)
            number = coded >> 1 ^ -(coded & 1)
        out[number], at = _value(data, at, head & 15, depth)
    return out, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind not in _READ:
        raise Corrupt(f"the header of a page has a value of type {kind}")
    return _READ[kind](data, at)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > 63:
            return number, at


def _whole(data: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return number >> 1 ^ -(number & 1), at


def _binary(data: bytes, at: int) -> tuple[None, int]:
    """Skips a text: no part of a header that is used."""
    size, at = _varint(data, at)
    if at + size > len(data):
        raise IndexError
    return None, at + size


_READ: Final[dict[int, Callable[[bytes, int], tuple[Any, int]]]] = {
    1: lambda _, at: (True, at),
    2: lambda _, at: (False, at),
    3: lambda data, at: (data[at], at + 1),
    4: _whole,
    5: _whole,
    6: _whole,
    7: lambda data, at: (struct.unpack_from("<d", data, at)[0], at + 8),
    8: _binary,
}
