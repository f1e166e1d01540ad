"""Compression of the records of a batch, with Arrow's codecs, in the forms that Kafka's clients accept."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from lakelog.errors import Corrupt, UnsupportedFeature

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
"""Codec numbers of Kafka's attributes."""
_MOST_BYTES: Final = 1 << 31
"""A length within a record has 31 bits; a larger result is damage."""
_MOST_OF_SMALL: Final = 32 << 20
_MOST_RATIO: Final = 32
"""A batch of lakelog has 1 MB of plain records, or one large record, whose text takes a small part of that."""

_SMALL: Final = 1024
"""Size from which compression saves more than it costs a reader."""

_USUAL_RATIO: Final = 16
"""Records of a batch mostly take less than this times their compressed size, so that one read has them all."""

_PLENTY: Final = 1 << 16
"""Bytes that are allocated for any frame, whatever its length."""

_LZ4_BEGIN: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Magic number and descriptor of an LZ4 frame: independent blocks of up to 64 KB, no checksum of the content. Kafka's
Java client accepts no linked blocks."""
_LZ4_BLOCK: Final = 1 << 16
_LZ4_PLAIN: Final = 1 << 31
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD: Final = 16


def compress(data: bytes, codec: int) -> tuple[bytes, int]:
    """The data and the codec that it has then: ``codec`` (NONE, LZ4 or ZSTD), or NONE if it is small or no shorter.

    Data that compresses better than ``decompress`` trusts stays as it is.
    """
    if codec == NONE or len(data) < _SMALL:
        return data, NONE
    packed = _lz4_frame(data) if codec == LZ4 else pa.Codec("zstd", compression_level=1).compress(data, asbytes=True)
    return (packed, codec) if len(packed) < len(data) <= _most_of(packed) else (data, NONE)


def _most_of(packed: bytes) -> int:
    """The most plain bytes that compressed ones may become."""
    return max(_MOST_OF_SMALL, min(_MOST_BYTES, _MOST_RATIO * len(packed)))


class TooLarge(Exception):
    """Compressed records would become too large, which ``decode`` passes on with them. Little was unpacked."""


def decompress(data: bytes, codec: int) -> bytes:
    """The plain records. Raises Corrupt, TooLarge, UnsupportedFeature for an unknown codec."""
    if codec == NONE:
        return data
    if codec not in _READERS:
        raise UnsupportedFeature(f"codec {codec} of a record batch is not known: gzip, snappy, lz4 and zstd are")
    most = _most_of(data)
    try:
        plain = _READERS[codec](data, most)
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as wrong:
        raise Corrupt(f"records compressed with codec {codec} are damaged: {wrong}") from wrong
    if len(plain) > most:
        raise _too_large(data, most)
    return plain


def _too_large(data: bytes, most: int) -> TooLarge:
    return TooLarge(f"{len(data)} compressed bytes of records would become more than {most}")


def _lz4_frame(data: bytes) -> bytes:
    raw, parts = pa.Codec("lz4_raw"), [_LZ4_BEGIN]
    for start in range(0, len(data), _LZ4_BLOCK):
        block = data[start : start + _LZ4_BLOCK]
        packed = raw.compress(block, asbytes=True)
        is_shorter = len(packed) < len(block)
        parts.append(struct.pack("<I", len(packed) if is_shorter else len(block) | _LZ4_PLAIN))
        parts.append(packed if is_shorter else block)
    parts.append(bytes(4))
    return b"".join(parts)


def _zstd(data: bytes, most: int) -> bytes:
    """A frame that states its size at once, because a stream costs a small batch more than all else; others as streams.

    Source: RFC 8878, section 3.1.1. A frame in one segment states its size in 1, 2, 4 or 8 bytes.
    """
    flag, is_single = data[4] >> 6, data[4] & 0x20
    has_dictionary = data[4] & 3
    if is_single and not has_dictionary:
        width = 1 << flag
        size = int.from_bytes(data[5 : 5 + width], "little") + (256 if width == 2 else 0)
        if size <= max(_PLENTY, len(data) * _USUAL_RATIO):
            with contextlib.suppress(pa.ArrowException, OSError):  # more frames may follow
                plain: bytes = pa.Codec("zstd").decompress(data, size, asbytes=True)
                return plain
        elif size > most:
            raise _too_large(data, most)
    return _ZSTD_STREAM(data, most)


def _streamed(name: str) -> Callable[[bytes, int], bytes]:
    def read(data: bytes, most: int) -> bytes:
        size = min(most, max(_SMALL, len(data) * _USUAL_RATIO))  # Arrow allocates what a read asks for
        parts: list[bytes] = []
        with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
            while (part := stream.read(size)) and sum(map(len, parts)) <= most:
                parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    return read


def _snappy(data: bytes, most: int) -> bytes:
    """Raw Snappy (librdkafka), or blocks with their lengths after a header (Java)."""
    if not data.startswith(_XERIAL):
        return _snappy_block(data, data, most)
    parts, at = list[bytes](), _XERIAL_HEAD
    while at < len(data):
        size = struct.unpack_from(">I", data, at)[0]
        parts.append(_snappy_block(data[at + 4 : at + 4 + size], data, most - sum(map(len, parts))))
        at += 4 + size
    return b"".join(parts)


def _snappy_block(block: bytes, data: bytes, most: int) -> bytes:
    size = shift = at = 0
    while True:  # the plain length, 7 bits a byte
        size |= (block[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if block[at - 1] < 128:
            break
    if size > most:
        raise _too_large(data, most)
    plain: bytes = pa.Codec("snappy").decompress(block, size, asbytes=True)
    return plain


_ZSTD_STREAM: Final = _streamed("zstd")
_READERS: Final = {GZIP: _streamed("gzip"), SNAPPY: _snappy, LZ4: _streamed("lz4"), ZSTD: _zstd}
