"""Kafka's record batches in plain Python, written from the protocol's description alone: the reference of the codec."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, field

import pyarrow as pa

_POLYNOMIAL = 0x82F63B78
_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (_POLYNOMIAL if _byte & 1 else 0)
    _TABLE.append(_byte)


@dataclass(frozen=True)
class PlainRecord:
    """A record as a consumer sees it."""

    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), bit by bit table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def read_batch(data: bytes) -> list[PlainRecord]:
    """The records of one batch; checks its CRC, its length and its counts."""
    base, length, _, magic, crc = struct.unpack_from(">qiibI", data)
    assert (magic, length) == (2, len(data) - 12)
    assert crc == crc32c(data[21:])
    attributes, last, base_time, max_time, _, _, _, count = struct.unpack_from(">hiqqqhii", data, 21)
    plain = _plain(data[61:], attributes & 7)
    found, at = [], 0
    for _ in range(count):
        size, at = _number(plain, at)
        end = at + size
        time, at = _number(plain, at + 1)
        offset, at = _number(plain, at)
        key, at = _data(plain, at)
        value, at = _data(plain, at)
        headers, at = _headers(plain, at)
        assert at == end
        found.append(PlainRecord(base + offset, max_time if attributes & 8 else base_time + time, key, value, headers))
    assert at == len(plain)
    assert not found or found[-1].offset <= base + last
    return found


def write_batch(records: list[PlainRecord], base: int, codec: str = "none", attributes: int = 0) -> bytes:
    """A batch as another producer may write it, with any number of headers and gaps between offsets."""
    base_time = records[0].time if records else 0
    out = bytearray()
    for record in records:
        body = b"\x00" + _varint(record.time - base_time) + _varint(record.offset - base)
        body += _sized(record.key) + _sized(record.value) + _varint(len(record.headers))
        for name, value in record.headers:
            body += _sized(name.encode()) + _sized(value)
        out += _varint(len(body)) + body
    number = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
    packed = bytes(out) if codec == "none" else _packed(bytes(out), codec)
    last = records[-1].offset - base if records else 0
    times = base_time, max((r.time for r in records), default=0)
    after = struct.pack(">hiqqqhii", attributes | number, last, *times, -1, -1, -1, len(records)) + packed
    return struct.pack(">qiibI", base, len(after) + 9, -1, 2, crc32c(after)) + after


def _packed(data: bytes, codec: str) -> bytes:
    if codec == "gzip":
        return gzip.compress(data)
    return pa.Codec(codec).compress(data, asbytes=True)


def _plain(data: bytes, codec: int) -> bytes:
    if codec == 0:
        return data
    with pa.CompressedInputStream(pa.BufferReader(data), {1: "gzip", 3: "lz4", 4: "zstd"}[codec]) as stream:
        return stream.read()


def _varint(number: int) -> bytes:
    rest, out = number * 2 if number >= 0 else -number * 2 - 1, b""
    while rest >= 128:
        out += bytes([rest % 128 + 128])
        rest //= 128
    return out + bytes([rest])


def _number(data: bytes, at: int) -> tuple[int, int]:
    rest, factor = 0, 1
    while data[at] >= 128:
        rest, factor, at = rest + data[at] % 128 * factor, factor * 128, at + 1
    rest += data[at] * factor
    return (rest // 2 if rest % 2 == 0 else -(rest + 1) // 2), at + 1


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _data(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _number(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _headers(data: bytes, at: int) -> tuple[list[tuple[str, bytes | None]], int]:
    count, at = _number(data, at)
    found = []
    for _ in range(count):
        name, at = _data(data, at)
        value, at = _data(data, at)
        found.append(((name or b"").decode(), value))
    return found, at
