"""What a Parquet file says of its columns and pages, known before anything is unpacked.

Arrow ends the process for some footers, and takes memory for whatever a footer or a page says that it has. Source:
Apache Parquet's ``parquet.thrift`` (FileMetaData, PageHeader) and Thrift's compact protocol.
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
_MAGIC: Final = b"PAR1"
_END_BYTES: Final = 8
_REPEATED: Final = 2
BYTE_ARRAY, FIXED = 6, 7
FLOATS: Final = {4: struct.Struct("<f"), 5: struct.Struct("<d")}
_LIST, _STRUCT = 9, 12
_LONG_LIST: Final = 15
_HEAD_BYTES: Final = 512
_MOST_HEAD_BYTES: Final = 16 << 20
_MOST_DEPTH: Final = 64


@dataclass(frozen=True)
class Leaf:
    """A column as Parquet stores it: its path, number of the physical type, bytes of a fixed one, levels."""

    path: str
    kind: int
    length: int
    repetition: int
    definition: int


@dataclass(frozen=True)
class Chunk:
    """The values of a column in a row group; ``start`` is its first page."""

    leaf: Leaf
    start: int
    packed: int
    unpacked: int
    values: int
    encodings: tuple[int, ...]
    bounds: tuple[bytes | None, bytes | None]

    def float_bounds(self) -> Iterator[float]:
        """The least and the largest of a column of floats, as far as they are known."""
        form = FLOATS[self.leaf.kind]
        return (form.unpack(bound)[0] for bound in self.bounds if bound is not None and len(bound) == form.size)


@dataclass(frozen=True)
class RowGroup:
    """A row group."""

    rows: int
    chunks: tuple[Chunk, ...]


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
        try:
            about = {} if kind is None else header[kind]
            counts = header[_PACKED], header[_UNPACKED], about.get(1, 0), about.get(_ENCODING.get(kind or 0), 0)
            if min(counts) < 0:
                raise Corrupt(f"a page at {start} has a negative size: {counts}")
        except (KeyError, TypeError, AttributeError) as why:
            raise Corrupt(f"the header of a page at {start} lacks {why}") from None
        page = Page(*counts, is_dictionary=kind == _DICTIONARY_HEADER)
        seen += 0 if page.is_dictionary else page.values
        start += size + page.packed
        yield page


def read_footer(source: pa.NativeFile) -> tuple[RowGroup, ...]:
    """The row groups of a file; none if Arrow takes it for no Parquet file. Raises Corrupt."""
    size = source.size()
    end = source.read_at(min(size, _END_BYTES), max(0, size - _END_BYTES))
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length + _END_BYTES > size:
        return ()
    try:
        footer, _ = _struct(source.read_at(length, size - _END_BYTES - length), 0, 0)
        leaves = tuple(_leaves(iter(footer[2]), 0, 0, (), -1))
        return tuple(_row_group(group, leaves) for group in footer.get(4, ()))
    except (
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        struct.error,
        StopIteration,
        RuntimeError,
    ) as why:
        raise Corrupt(f"its footer is damaged: {why!r}") from None


def _leaves(
    elements: Iterator[dict[int, Any]], repetition: int, definition: int, above: tuple[str, ...], depth: int
) -> Iterator[Leaf]:
    """The leaves of the next element of a schema, which stands before its parts."""
    if depth > _MOST_DEPTH:
        raise ValueError(f"its columns are nested more than {_MOST_DEPTH} times")
    element = next(elements)
    kind = element.get(3, 0) if depth >= 0 else 0
    repetition, definition = repetition + (kind == _REPEATED), definition + (kind != 0)
    path = (*above, element[4].decode()) if depth >= 0 else ()
    if 1 in element and not element.get(5):
        yield Leaf(".".join(path), element[1], element.get(2, 0), repetition, definition)
    for _ in range(element.get(5, 0)):
        yield from _leaves(elements, repetition, definition, path, depth + 1)


def _row_group(group: dict[int, Any], leaves: tuple[Leaf, ...]) -> RowGroup:
    pairs = zip(leaves, group[1], strict=True)
    row_group = RowGroup(group[3], tuple(_chunk(leaf, chunk[3]) for leaf, chunk in pairs))
    if row_group.rows < 0:
        raise ValueError(f"a row group has {row_group.rows} rows")
    return row_group


def _chunk(leaf: Leaf, about: dict[int, Any]) -> Chunk:
    start, dictionary = about[9], about.get(11, 0)
    if 0 < dictionary < start:
        start = dictionary
    bounds = about.get(12, {})
    chunk = Chunk(
        leaf,
        start,
        about[7],
        about[6],
        about[5],
        tuple(about[2]),
        (bounds.get(6, bounds.get(2)), bounds.get(5, bounds.get(1))),
    )
    if min(chunk.start, chunk.packed, chunk.unpacked, chunk.values, leaf.length) < 0:
        raise ValueError(f"column '{leaf.path}' has a negative size or place")
    sizes = about.get(16, {})
    # Arrow ends the process for those that do not fit
    levels = ((sizes.get(2), leaf.repetition), (sizes.get(3), leaf.definition))
    if any(counts and len(counts) != level + 1 for counts, level in levels) or (1 in sizes and leaf.kind != BYTE_ARRAY):
        raise ValueError(f"the sizes of column '{leaf.path}' are not those of its type")
    return chunk


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
        raise Corrupt("a header is nested too deeply")
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
    if kind == _LIST:
        return _list(data, at, depth)
    if kind not in _READ:
        raise Corrupt(f"a header has a value of type {kind}")
    return _READ[kind](data, at)


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head = data[at]
    count, at = head >> 4, at + 1
    if count == _LONG_LIST:
        count, at = _varint(data, at)
    kind = head & 15
    out = []
    for _ in range(count):
        if kind in (1, 2):
            # in a list, a truth value takes a byte
            value, at = data[at] == 1, at + 1
        else:
            value, at = _value(data, at, kind, depth)
        out.append(value)
    return out, at


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


def _binary(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _varint(data, at)
    if at + size > len(data):
        raise IndexError("a value is cut")
    return data[at : at + size], at + size


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
