"""The frame of an Avro object container file: header, and compressed blocks of records.

This module compresses the blocks, because the Avro library's codecs depend on further packages with changing names.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.errors import Corrupt, UnsupportedFeature

MAGIC: Final = b"Obj\x01"
SCHEMA_KEY: Final = "avro.schema"
CODEC_KEY: Final = "avro.codec"
_SYNC_SIZE: Final = 16
_ZSTD_LEVEL: Final = 3
_METADATA_BYTES: Final = 64 << 20
_METADATA_RATIO: Final = 32
_BLOCK_BYTES: Final = 64 << 20
"""The most that a compressed block unpacks to. A larger one has a row of that size, and is stored as it is."""
_LISTS_BYTES: Final = 2 << 20
"""The same for records with lists, an item of which may take a byte there and hundreds in memory."""
_BLOCK_RATIO: Final = 256
"""A block with lists may unpack to as many times its bytes, up to the bound of others."""
_PART_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Container:
    """A parsed container file; ``blocks`` are (number of records, uncompressed bytes)."""

    header: Mapping[str, bytes]
    sync: bytes
    blocks: tuple[tuple[int, bytes], ...]

    def to_bytes(self, codec: str) -> bytes:
        """The file, with blocks compressed by ``zstandard`` or ``deflate``, or uncompressed (``null``)."""
        packed = [_compress(plain, codec) for _, plain in self.blocks]
        pairs = zip(self.blocks, packed, strict=True)
        if any(len(plain) > _most_of_block(self.header, len(data)) for (_, plain), data in pairs):
            codec, packed = "null", [plain for _, plain in self.blocks]
        header = {**self.header, CODEC_KEY: codec.encode()}
        parts = [MAGIC, _long(len(header))]
        for key, value in header.items():
            parts += [_long(len(key.encode())), key.encode(), _long(len(value)), value]
        parts += [_long(0), self.sync]
        for (count, _), data in zip(self.blocks, packed, strict=True):
            parts += [_long(count), _long(len(data)), data, self.sync]
        return b"".join(parts)


def _most_of_block(header: Mapping[str, bytes], packed: int) -> int:
    """The most that a block of so many bytes may unpack to; as it is, it takes no more."""
    schema = header.get(SCHEMA_KEY, b"")
    has_lists = b'"array"' in schema or b'"map"' in schema
    most = max(_LISTS_BYTES, min(_BLOCK_BYTES, _BLOCK_RATIO * packed)) if has_lists else _BLOCK_BYTES
    return max(most, packed)


def _compress(plain: bytes, codec: str) -> bytes:
    if codec == "null":
        return plain
    # Avro's deflate has neither header nor checksum
    return zlib.compress(plain, wbits=-15) if codec == "deflate" else bytes(_zstd().compress(plain, asbytes=True))


def parse_metadata(data: bytes, most_of_small: int | None = None) -> Container:
    """Parses a metadata file, with a limit of its uncompressed size. Raises as ``parse_container``.

    The limit of a small file is ``most_of_small`` bytes, that of a larger one a multiple of its size.
    """
    return parse_container(data, max(most_of_small or _METADATA_BYTES, _METADATA_RATIO * len(data)))


def parse_container(data: bytes, most_bytes: int = sys.maxsize) -> Container:
    """Parses a file. Raises Corrupt, UnsupportedFeature (unknown codec).

    Corrupt includes more uncompressed bytes than ``most_bytes``, and more records than bytes.
    """
    header, sync, at = _head(data)
    return Container(header, sync, tuple(_plain_blocks(data, header, at, most_bytes)))


def containers(data: bytes, part_bytes: int) -> Iterator[Container]:
    """A data file as containers of about as many bytes, one at a time; at least one. Raises as ``parse_container``."""
    header, sync, at = _head(data)
    blocks, size = list[tuple[int, bytes]](), 0
    for count, plain in _plain_blocks(data, header, at, sys.maxsize):
        if blocks and size + len(plain) > part_bytes:
            yield Container(header, sync, tuple(blocks))
            blocks, size = [], 0
        blocks.append((count, plain))
        size += len(plain)
    yield Container(header, sync, tuple(blocks))


def _head(data: bytes) -> tuple[dict[str, bytes], bytes, int]:
    """The header of a file, its sync marker, and where its blocks begin."""
    with _parsing():
        header, at = _header(data)
        sync = data[at : at + _SYNC_SIZE]
        if len(sync) < _SYNC_SIZE:
            raise Corrupt("not an Avro file: the header is truncated")
        return header, sync, at + _SYNC_SIZE


def _plain_blocks(data: bytes, header: Mapping[str, bytes], at: int, most: int) -> Iterator[tuple[int, bytes]]:
    """The uncompressed blocks, of at most ``most`` bytes together."""
    with _parsing():
        codec = header.get(CODEC_KEY, b"null").decode()
        for count, block in _blocks(data, at, data[at - _SYNC_SIZE : at]):
            limit = min(most, _most_of_block(header, len(block)))
            plain = _decompress(block, codec, limit)
            most -= len(plain)
            if len(plain) > limit or not 0 <= count <= len(plain):
                raise Corrupt(f"invalid Avro file: {count} records in a block, of {len(plain)} bytes or more")
            yield count, plain


@contextmanager
def _parsing() -> Iterator[None]:
    try:
        yield
    except (IndexError, UnicodeDecodeError, OSError, zlib.error) as why:
        raise Corrupt(f"invalid Avro file: {why!r}") from None


def _header(data: bytes) -> tuple[dict[str, bytes], int]:
    if data[:4] != MAGIC:
        raise Corrupt("not an Avro file: it does not begin with 'Obj' 1")
    header: dict[str, bytes] = {}
    count, at = _read_long(data, 4)
    while count:
        if count < 0:
            # a negative count means that the size of the block follows
            count = -count
            _, at = _read_long(data, at)
        for _ in range(count):
            key, at = _read_bytes(data, at)
            header[key.decode()], at = _read_bytes(data, at)
        count, at = _read_long(data, at)
    return header, at


def _blocks(data: bytes, at: int, sync: bytes) -> Iterator[tuple[int, bytes]]:
    while at < len(data):
        count, at = _read_long(data, at)
        block, at = _read_bytes(data, at)
        if data[at : at + _SYNC_SIZE] != sync:
            raise Corrupt(f"invalid Avro file: no sync marker at {at} of {len(data)} bytes")
        at += _SYNC_SIZE
        yield count, block


def _decompress(data: bytes, codec: str, most: int) -> bytes:
    """The uncompressed bytes, limited to slightly more than ``most``."""
    if codec == "null":
        return data
    if codec == "zstandard":
        return _read_at_most(pa.CompressedInputStream(pa.BufferReader(data), "zstd"), most)
    if codec == "deflate":
        return zlib.decompressobj(wbits=-15).decompress(data, min(most + 1, sys.maxsize))
    if codec == "snappy":
        # the uncompressed length is first, a checksum last
        length, _ = _read_varint(data, 0)
        if length > most:
            raise Corrupt(f"invalid Avro file: a block of {length} bytes, more than {most}")
        return bytes(pa.Codec("snappy").decompress(data[:-4], decompressed_size=length, asbytes=True))
    raise UnsupportedFeature(f"Avro codec '{codec}' is not supported; supported: zstandard, snappy, deflate, null")


def _read_at_most(stream: pa.NativeFile, most: int) -> bytes:
    parts, size = [], 0
    while size <= most and (part := stream.read(_PART_BYTES)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _zstd() -> pa.Codec:
    return pa.Codec("zstd", compression_level=_ZSTD_LEVEL)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise IndexError("a number has more than 64 bits")


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    number, at = _read_varint(data, at)
    return number >> 1 ^ -(number & 1), at


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_long(data, at)
    if length < 0 or at + length > len(data):
        raise Corrupt(f"invalid Avro file: {length} bytes at {at} of {len(data)}")
    return data[at : at + length], at + length


def _long(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
