"""One record of a batch by itself: for small batches, and for what other producers wrote."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakelog.logstore.record_batch.varint import decode_varint, encode_varint

NO_TIME: Final = b"\x00\x00"
"""Attributes and timestamp delta of a record with the time of its batch."""


class Record(NamedTuple):
    """A record; ``time`` (ms) and ``offset`` count from those of its batch."""

    time: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def parse_record(data: bytes, at: int) -> tuple[Record, int]:
    """The record at a position, and the position after it. Raises IndexError or ValueError if it is damaged."""
    length, at = decode_varint(data, at)
    end = at + length
    time, at = decode_varint(data, at + 1)
    offset, at = decode_varint(data, at)
    key, at = _bytes(data, at)
    value, at = _bytes(data, at)
    count, at = decode_varint(data, at)
    headers = []
    for _ in range(count):
        name, at = _bytes(data, at)
        header, at = _bytes(data, at)
        headers.append((name or b"", header))
    if at != end:
        raise ValueError(f"a record of {length} bytes has other fields")
    return Record(time, offset, key, value, tuple(headers)), at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = decode_varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise ValueError(f"a field of {size} bytes is longer than its batch")
    return data[at : at + size], at + size


def record_bytes(offset: int, key: bytes | None, value: bytes | None, tail: bytes) -> bytes:
    """The bytes of a record with the time of its batch; ``tail`` are its headers."""
    body = b"".join([NO_TIME, encode_varint(offset), _sized(key), _sized(value), tail])
    return encode_varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data
