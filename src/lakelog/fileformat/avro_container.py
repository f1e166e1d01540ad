"""The frame of an Avro object container file: header, and compressed blocks of records.

This module compresses the blocks, because the Avro library's codecs depend on further packages with changing names.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.errors import Corrupt, UnsupportedFeature

MAGIC: Final = b"Obj\x01"
SCHEMA_KEY: Final = "avro.schema"
CODEC_KEY: Final = "avro.codec"
_SYNC_SIZE: Final = 16
_ZSTD_LEVEL: Final = 3
_METADATA_BYTES: Final = 256 << 20
_METADATA_RATIO: Final = 32
_PART_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Container:
    """A parsed container file; ``blocks`` are (number of records, uncompressed bytes)."""

    header: Mapping[str, bytes]
    sync: bytes
    blocks: tuple[tuple[int, bytes], ...]

    def to_bytes(self, codec: str) -> bytes:
        """The file, with blocks compressed by ``zstandard`` or ``deflate``, or uncompressed (``null``)."""
        header = {**self.header, CODEC_KEY: codec.encode()}
        parts = [MAGIC, _long(len(header))]
        for key, value in header.items():
            parts += [_long(len(key.encode())), key.encode(), _long(len(value)), value]
        parts += [_long(0), self.sync]
        for count, plain in self.blocks:
            data = _compress(plain, codec)
            parts += [_long(count), _long(len(data)), data, self.sync]
        return b"".join(parts)


def _compress(plain: bytes, codec: str) -> bytes:
    if codec == "null":
        return plain
    # Avro's deflate has neither header nor checksum
    return zlib.compress(plain, wbits=-15) if codec == "deflate" else bytes(_zstd().compress(plain, asbytes=True))


def parse_metadata(data: bytes) -> Container:
    """Parses a metadata file, with a limit of its uncompressed size. Raises as ``parse_container``."""
    return parse_container(data, max(_METADATA_BYTES, _METADATA_RATIO * len(data)))


def parse_container(data: bytes, most_bytes: int = sys.maxsize) -> Container:
    """Parses a file. Raises Corrupt, UnsupportedFeature (unknown codec).

    Corrupt includes more uncompressed bytes than ``most_bytes``, and more records than bytes.
    """
    try:
        header, at = _header(data)
        sync = data[at : at + _SYNC_SIZE]
        if len(sync) < _SYNC_SIZE:
            raise Corrupt("not an Avro file: the header is truncated")
        codec = header.get(CODEC_KEY, b"null").decode()
        blocks, left = [], most_bytes
        for count, block in _blocks(data, at + _SYNC_SIZE, sync):
            plain = _decompress(block, codec, left)
            left -= len(plain)
            if left < 0 or not 0 <= count <= len(plain):
                raise Corrupt(f"invalid Avro file: {count} records in a block, of {most_bytes - left} bytes or more")
            blocks.append((count, plain))
    except (IndexError, UnicodeDecodeError, OSError, zlib.error) as why:
        raise Corrupt(f"invalid Avro file: {why!r}") from None
    return Container(header, sync, tuple(blocks))


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
