"""The tail of an ORC file: its types and stripes, and the streams of a stripe, of bounded size (Apache ORC's v1 spec).

Arrow's reader names neither the streams nor the types, and takes memory for all that a file says it has.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import Corrupt

_ZLIB, _SNAPPY, _LZ4, _ZSTD = 1, 2, 4, 5
_TAIL_BYTES: Final = 16 << 10
_MOST_BYTES: Final = 64 << 20
_MOST_ITEMS: Final = 1 << 17
"""The most values of a field of a message: types, stripes, streams."""
_MOST_BLOCK: Final = 8 << 20
_RATIO: Final = 32

Message = dict[int, list[Any]]
"""The values of each field of a protobuf message: numbers, or bytes."""


@dataclass(frozen=True)
class OrcType:
    """A column: the number of its type, and its parts."""

    kind: int
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Stripe:
    """A stripe: where it lies, the bytes of its parts, and its rows."""

    offset: int
    index: int
    data: int
    footer: int
    rows: int


@dataclass(frozen=True)
class Stream:
    """A stream of a column: its kind and its range of the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True)
class OrcFooter:
    """What the tail of a file says. ``read`` and ``streams`` raise Corrupt."""

    source: pa.NativeFile
    codec: int
    block: int
    types: tuple[OrcType, ...]
    names: tuple[str, ...]
    stripes: tuple[Stripe, ...]

    def unpacked(self, offset: int, length: int) -> bytes:
        """A stream without its compression. Raises Corrupt."""
        data = self.source.read_at(length, offset)
        return unpack(data, self.codec, self.block)

    def streams(self, stripe: Stripe) -> tuple[list[Stream], list[tuple[int, int]]]:
        """The streams of a stripe, and of each column its encoding and the size of its dictionary."""
        footer = message(self.unpacked(stripe.offset + stripe.index + stripe.data, stripe.footer))
        at, streams = stripe.offset, []
        for raw in footer.get(1, ()):
            one = message(raw)
            streams.append(Stream(_first(one, 1), _first(one, 2), at, _first(one, 3)))
            at += streams[-1].length
        encodings = map(message, footer.get(2, ()))
        return streams, [(_first(one, 1), _first(one, 2)) for one in encodings]


def read_footer(source: pa.NativeFile) -> OrcFooter:
    """The tail of a file. Raises Corrupt."""
    size = source.size()
    tail = source.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    if not tail or len(tail) < tail[-1] + 1:
        raise Corrupt("it has no end")
    end = message(tail[-1 - tail[-1] : -1])
    length, codec, block = _first(end, 1), _first(end, 2), _first(end, 3)
    if block > _MOST_BLOCK or length > size:
        raise Corrupt(f"its blocks have {block} bytes, and its footer {length}")
    start = size - 1 - tail[-1] - length
    footer = message(unpack(source.read_at(length, max(0, start)), codec, block))
    types = [message(raw) for raw in footer.get(4, ())]
    stripes = [message(raw) for raw in footer.get(3, ())]
    return OrcFooter(
        source,
        codec,
        block,
        tuple(OrcType(_first(one, 1), tuple(_numbers(one.get(2, ())))) for one in types),
        tuple(_text(name) for name in (types[0].get(3, ()) if types else ())),
        tuple(Stripe(*(_first(one, field) for field in range(1, 6))) for one in stripes),
    )


def unpack(data: bytes, codec: int, block: int) -> bytes:
    """The bytes of a compressed stream, block by block. Raises Corrupt beyond some megabytes, or a multiple of it."""
    if not codec:
        return data
    most = max(_MOST_BYTES, _RATIO * len(data))
    out, at = bytearray(), 0
    while at + 3 <= len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        part = data[at + 3 : at + 3 + (head >> 1)]
        at += 3 + (head >> 1)
        out += part if head & 1 else _unpack_block(part, codec, block)
        if len(out) > most:
            raise Corrupt(f"{len(data)} bytes of it unpack to more than {most}")
    return bytes(out)


def _unpack_block(data: bytes, codec: int, block: int) -> bytes:
    try:
        if codec == _ZLIB:
            return zlib.decompressobj(wbits=-15).decompress(data, block)
        if codec == _ZSTD:
            return bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(block))
        if codec == _SNAPPY:
            size, _ = varint(data, 0)
            if size > block:
                raise Corrupt(f"a block of it unpacks to {size} bytes, of at most {block}")
            return bytes(pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True))
        if codec == _LZ4:
            return _unpack_lz4(data, block)
    except (zlib.error, OSError, IndexError) as why:
        raise Corrupt(f"a block of it cannot be unpacked: {why!r}") from None
    raise Corrupt(f"it has the compression {codec}, which no reader of Arrow has")


def _unpack_lz4(data: bytes, most: int) -> bytes:
    """An LZ4 block, whose size is not known before: literals, then a copy of what has come, and so on."""
    out, at = bytearray(), 0
    while at < len(data):
        token = data[at]
        count, at = _lz4_count(data, at + 1, token >> 4)
        out += data[at : at + count]
        at += count
        if at >= len(data):
            break
        back = data[at] | data[at + 1] << 8
        count, at = _lz4_count(data, at + 2, token & 15)
        count += 4
        if not 0 < back <= len(out) or len(out) + count > most:
            raise Corrupt("a block of it does not fit its size")
        copied = out[len(out) - back :][:count]
        out += (copied * (count // len(copied) + 1))[:count]
    return bytes(out)


def _lz4_count(data: bytes, at: int, count: int) -> tuple[int, int]:
    more = 255 if count == 15 else 0
    while more == 255:
        more = data[at]
        count, at = count + more, at + 1
    return count, at


def message(data: bytes | int) -> Message:
    """The fields of a protobuf message. Raises Corrupt."""
    if isinstance(data, int):
        raise Corrupt("it has a number in place of a message")
    out: Message = {}
    at = 0
    try:
        while at < len(data):
            head, at = varint(data, at)
            value: Any
            if head & 7 == 0:
                value, at = varint(data, at)
            elif head & 7 == 2:
                size, at = varint(data, at)
                value, at = data[at : at + size], at + size
            elif head & 7 in (1, 5):
                value, at = 0, at + (8 if head & 7 == 1 else 4)
            else:
                raise Corrupt(f"a message of it has a value of type {head & 7}")
            values = out.setdefault(head >> 3, [])
            values.append(value)
            if len(values) > _MOST_ITEMS:
                raise Corrupt(f"a message of it has more than {_MOST_ITEMS} values of the field {head >> 3}")
    except IndexError:
        raise Corrupt("a message of it is cut") from None
    return out


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends. Raises IndexError."""
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > 63:
            return number & (1 << 64) - 1, at


def _first(one: Message, field: int) -> int:
    value = one.get(field, [0])[-1]
    if not isinstance(value, int):
        raise Corrupt(f"a message of it has bytes as its field {field}")
    return value


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else ""


def _numbers(values: Any) -> Iterator[int]:
    """Numbers, each one value or packed as bytes."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            try:
                number, at = varint(value, at)
            except IndexError:
                raise Corrupt("a list of numbers of it is cut") from None
            yield number
