"""A segment of a log in files: the record batches of one append, and a footer that locates them (RFC 15).

``batches … | footer (JSON) | its length and CRC-32 (4 bytes each, little-endian) | MAGIC``. A reader gets the footer,
and the whole of a small segment, with one request for the end of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

import orjson
import pyarrow as pa

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.logstore.base import LARGEST_OFFSET
from lakelog.logstore.record_batch.batch import RecordBatch, parse_batches
from lakelog.options.formats import LOG_SEGMENT

MAGIC: Final = LOG_SEGMENT
_TRAILER: Final = struct.Struct("<II")
_LARGEST_FOOTER: Final = 64 << 20


@dataclass(frozen=True)
class Part:
    """One record batch: its bucket, first offset, number of records, and place in the segment in bytes."""

    bucket: int
    first: int
    count: int
    at: int
    size: int


@dataclass(frozen=True)
class Segment:
    """The footer of a segment.

    ``token`` identifies the append. ``ends`` are the end offsets of all buckets after it. ``timestamp_ms`` is never
    lower than that of the segment before.
    """

    token: str
    timestamp_ms: int
    ends: tuple[int, ...]
    parts: tuple[Part, ...]


def encode_segment(
    token: str, timestamp_ms: int, starts: Sequence[int], batches: Sequence[tuple[int, int, bytes]]
) -> tuple[bytes, Segment]:
    """The bytes and the footer of a segment.

    ``starts`` are the end offsets of all buckets before it, ``batches`` the bucket, the number of records and the bytes
    of each batch, in order.
    """
    ends, parts, at = list(starts), [], 0
    for bucket, count, data in batches:
        parts.append(Part(bucket, ends[bucket], count, at, len(data)))
        ends[bucket] += count
        at += len(data)
    segment = Segment(token, timestamp_ms, tuple(ends), tuple(parts))
    footer = orjson.dumps(
        {
            "token": token,
            "timestamp": timestamp_ms,
            "ends": ends,
            "parts": [[p.bucket, p.first, p.count, p.at, p.size] for p in parts],
        }
    )
    return b"".join(
        [*(data for *_, data in batches), footer, _TRAILER.pack(len(footer), crc32(footer)), MAGIC]
    ), segment


def read_footer(file: pa.NativeFile, path: str) -> Segment:
    """The footer of an open segment. Raises Corrupt."""
    size, tail = file.size(), _TRAILER.size + len(MAGIC)
    end = _read(file, size - tail, tail) if size >= tail else b""
    length, crc = _TRAILER.unpack_from(end) if end[_TRAILER.size :] == MAGIC else (size, 0)
    if length > min(size - tail, _LARGEST_FOOTER):
        raise damaged(path)
    footer = _read(file, size - tail - length, length)
    if crc32(footer) != crc:
        raise damaged(path)
    try:
        values = orjson.loads(footer)
        parts = tuple(Part(*(int(number) for number in part)) for part in values["parts"])
        ends = tuple(int(end) for end in values["ends"])
        segment = Segment(str(values["token"]), int(values["timestamp"]), ends, parts)
    except (ValueError, TypeError, KeyError, OverflowError) as why:
        raise damaged(path) from why
    body = size - tail - length
    if any(not (0 <= p.bucket < len(ends) and p.count > 0 and 0 <= p.at <= p.at + p.size <= body) for p in parts):
        raise damaged(path)
    if not _is_dense(segment) or any(not 0 <= end <= LARGEST_OFFSET for end in ends):
        raise damaged(path)
    return segment


def _is_dense(segment: Segment) -> bool:
    """True if the parts of each bucket follow each other, up to its end."""
    begins = dict(enumerate(segment.ends))
    for part in reversed(segment.parts):
        begins[part.bucket] -= part.count
        if part.first != begins[part.bucket] or part.first < 0:
            return False
    return True


def read_batch(file: pa.NativeFile, part: Part, timestamp_ms: int, path: str) -> RecordBatch:
    """The record batch of a part, with the time of its segment. Raises Corrupt."""
    try:
        batches = list(parse_batches(_read(file, part.at, part.size)))
    except (Corrupt, UnsupportedFeature) as why:
        raise damaged(path) from why
    if [batch.count for batch in batches] != [part.count]:
        raise damaged(path)
    return replace(batches[0], base_offset=part.first, base_timestamp=timestamp_ms, max_timestamp=timestamp_ms)


def _read(file: pa.NativeFile, at: int, size: int) -> bytes:
    file.seek(at)
    data: bytes = file.read(size)
    return data


def damaged(path: str) -> Corrupt:
    """The error for a file of the log that cannot be read."""
    return Corrupt(
        f"'{path}' of the log is damaged. The rows are in the files; recreate the table to write to a log again"
    )
