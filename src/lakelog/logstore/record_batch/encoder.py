"""Records to record batches, by columns.

A record is ``length, attributes (0), timestamp delta, offset delta, key length, key, value length, value, header count,
name length, name, header length, header``; all numbers are zigzag varints, a null has the length -1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.logstore.base import Records
from lakelog.logstore.protocol.header import HEADER_KEY
from lakelog.logstore.record_batch.batch import HEAD_BYTES, RecordBatch
from lakelog.logstore.record_batch.compression import ZSTD, compress
from lakelog.logstore.record_batch.record import NO_TIME, record_bytes
from lakelog.logstore.record_batch.varint import encode_varint, varint_column, varint_sizes

MAX_BYTES: Final = 1_000_000
"""Size of a batch in plain bytes, below the default limit of a Kafka broker (1 MiB)."""
_MAX_RECORDS: Final = 1 << 16
_FEW: Final = 50
"""Number of records that are faster to write one by one."""
_NAME: Final = encode_varint(1) + encode_varint(len(HEADER_KEY)) + HEADER_KEY.encode()
_MOST_NUMBERS: Final = 5 + 3
"""Maximum bytes of a record's length and of its offset delta, which the sizes of the parts do not include."""


def encode(records: Records, timestamp_ms: int, codec: int = ZSTD, max_bytes: int = MAX_BYTES) -> list[RecordBatch]:
    """The records in batches of at most ``max_bytes`` before compression, and so after it, in order.

    A record that is larger has a batch of its own. Base offsets are 0; a caller sets them, or the producer's numbers,
    by ``dataclasses.replace``.
    """
    payloads = _few(records, max_bytes) if len(records) <= _FEW else _many(records, max_bytes)
    batches = []
    for count, payload in payloads:
        packed, used = compress(payload, codec)
        batches.append(RecordBatch(packed, count, used, timestamp_ms, timestamp_ms, count - 1))
    return batches


def _few(records: Records, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of the records of each batch, record by record."""
    count, headers = len(records), records.headers
    keys, values = records.keys.to_pylist(), records.values.to_pylist()
    tails = [_tail(headers)] * count if isinstance(headers, bytes) else list(map(_tail, headers))
    parts: list[bytes] = []
    size = HEAD_BYTES
    for number in range(count):
        part = record_bytes(len(parts), keys[number], values[number], tails[number])
        if parts and size + len(part) > max_bytes:
            yield len(parts), b"".join(parts)
            parts, size = [], HEAD_BYTES
            part = record_bytes(0, keys[number], values[number], tails[number])
        parts.append(part)
        size += len(part)
    if parts:
        yield len(parts), b"".join(parts)


def _many(records: Records, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The same by one join of columns a batch."""
    key_sizes, value_sizes = _sizes(records.keys), _sizes(records.values)
    tail, tail_sizes = _headers(records.headers)
    sizes = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0) + tail_sizes
    sizes += varint_sizes(key_sizes) + varint_sizes(value_sizes) + len(NO_TIME)
    for start, end in _cuts(sizes + _MOST_NUMBERS, max_bytes - HEAD_BYTES):
        count, part = end - start, slice(start, end)
        numbers = np.arange(count)
        columns = [
            varint_column(sizes[part] + varint_sizes(numbers)),
            NO_TIME,
            varint_column(numbers),
            varint_column(key_sizes[part]),
            records.keys.slice(start, count),
            varint_column(value_sizes[part]),
            records.values.slice(start, count),
            *(column if isinstance(column, bytes) else column.slice(start, count) for column in tail),
        ]
        yield count, _joined(columns, count)


def _tail(header: bytes) -> bytes:
    return _NAME + encode_varint(len(header)) + header


def _sizes(column: pa.LargeBinaryArray) -> np.ndarray:
    """Bytes of each value, -1 for null."""
    sizes: np.ndarray = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
    return sizes


def _headers(headers: bytes | Sequence[bytes]) -> tuple[list[bytes | pa.LargeBinaryArray], np.ndarray | int]:
    """The header of each record as columns to join, and its bytes."""
    if isinstance(headers, bytes):
        same = _tail(headers)
        return [same], len(same)
    column = pa.array(headers, pa.large_binary())
    sizes = _sizes(column)
    return [_NAME, varint_column(sizes), column], len(_NAME) + varint_sizes(sizes) + sizes


def _cuts(sizes: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Ranges of records with at most ``most`` bytes, or of one record."""
    ends = np.cumsum(sizes)
    cuts, start = [], 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + most, side="right"))
        end = min(max(fitting, start + 1), start + _MAX_RECORDS)
        cuts.append((start, end))
        start = end
    return cuts


def _joined(columns: list[bytes | pa.LargeBinaryArray], count: int) -> bytes:
    """The bytes of all columns, row by row."""
    parts = [pa.scalar(c, pa.large_binary()) if isinstance(c, bytes) else c for c in columns]
    rows = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()), null_handling="replace")
    offsets = np.frombuffer(rows.buffers()[1], np.int64)[[rows.offset, rows.offset + count]]
    return bytes(memoryview(rows.buffers()[2])[offsets[0] : offsets[1]])
