"""Record batches to records, by columns.

The bytes of a batch's records have the form of an Avro block: zigzag longs and length-prefixed bytes. So the Avro
reader of polars parses them, if they are alike: with a value, all or none with a key, all with one header or none. Null
values before them (``begin``) are parsed one by one. Other batches, of other producers, are parsed record by record.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PanicException, PolarsError

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.logstore.base import RECORDS_SCHEMA
from lakelog.logstore.protocol.header import HEADER_KEY
from lakelog.logstore.record_batch.batch import RecordBatch
from lakelog.logstore.record_batch.compression import NONE, TooLarge, decompress
from lakelog.logstore.record_batch.record import Record, parse_record
from lakelog.logstore.record_batch.varint import encode_varint, varint_sizes

_FEW: Final = 100
"""Number of records that are faster to parse one by one."""
_RUN_BYTES: Final = 4 << 20
"""Size from which a run of alike batches is parsed, so that its copies stay small."""
_SYNC: Final = bytes(16)
READ_BYTES: Final = 64 << 20
"""Plain bytes of batches after which a read returns what it has, and leaves the rest to the next one."""
_MOST_RECORDS: Final = 1 << 18
_MOST_OF_LAKELOG: Final = 1 << 16


def decode(batches: Iterable[RecordBatch]) -> pa.Table:
    """The records of batches (RECORDS_SCHEMA), in order of their offsets; none of control batches.

    Small batches are parsed together. The header is that of the protocol, or null. The caller leaves out aborted
    transactions. A batch that would become too large is not unpacked: its records have the reason as their value, so
    that whoever decodes values names their offsets or skips them. Raises Corrupt, UnsupportedFeature.
    """
    runs: dict[tuple[bool, int], _Run] = {}
    single, parts = _Singles(), list[pa.Table]()
    for batch in batches:
        if batch.is_control:
            continue
        try:
            data = _plain(batch)
        except TooLarge as why:
            single.add_unreadable(batch, why)
            continue
        with _damage(batch.base_offset):
            at, left, first = single.take_leading(batch, data)
        if first is not None:
            run = runs.setdefault((first.key is not None, len(first.headers)), _Run())
            run.add(batch, data[at:] if at else data, left)
            if run.size > _RUN_BYTES:
                parts += run.take(single)
    for run in runs.values():
        parts += run.take(single)
    parts += single.table()
    if not parts:
        return RECORDS_SCHEMA.empty_table()
    return _in_order(pa.concat_tables(parts))


def unpacked(batch: RecordBatch) -> RecordBatch:
    """The batch with its records uncompressed, to count their bytes; the batch itself if ``decode`` will refuse it."""
    if batch.is_control:
        return batch
    with contextlib.suppress(TooLarge, Corrupt, UnsupportedFeature):
        return replace(batch, payload=_plain(batch), attributes=batch.attributes ^ batch.codec ^ NONE)
    return batch


def _plain(batch: RecordBatch) -> bytes:
    if batch.count > _MOST_RECORDS:
        raise TooLarge(f"the record batch has {batch.count} records, and at most {_MOST_RECORDS} are read")
    return decompress(batch.payload, batch.codec)


def _in_order(found: pa.Table) -> pa.Table:
    """The records by offset; ranges that are in order already are not copied, unless they are short."""
    if found.num_rows == 1:
        return found
    offsets = found.column("offset").to_numpy()
    if (offsets[1:] > offsets[:-1]).all():
        return found
    order = np.argsort(offsets, kind="stable")
    starts = np.flatnonzero(np.diff(order, prepend=-2) != 1)
    if len(starts) * _FEW > len(order):
        return found.take(pa.array(order))
    sizes = np.diff(starts, append=len(order)).tolist()
    return pa.concat_tables([found.slice(order[start], size) for start, size in zip(starts, sizes, strict=True)])


@contextlib.contextmanager
def _damage(offset: int) -> Iterator[None]:
    try:
        yield
    except (IndexError, ValueError) as wrong:
        raise Corrupt(f"the record batch at offset {offset} is damaged: {wrong}") from wrong


class _Singles:
    """Records that are parsed one by one."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._offsets: list[int] = []
        self._times: list[int] = []

    def add(self, batch: RecordBatch, record: Record) -> None:
        self._records.append(record)
        self._offsets.append(batch.base_offset + record.offset)
        self._times.append(batch.max_timestamp if batch.has_append_time else batch.base_timestamp + record.time)

    def add_unreadable(self, batch: RecordBatch, why: TooLarge) -> None:
        """Adds the records of a batch with a reason as their value."""
        text = f"unreadable: {why}".encode()
        for number in range(min(batch.count, batch.last_offset_delta + 1, _MOST_OF_LAKELOG)):
            self.add(batch, Record(0, number, None, text))

    def take_leading(self, batch: RecordBatch, data: bytes) -> tuple[int, int, Record | None]:
        """Adds the first records without a value. Returns the position, number and first one of the others."""
        at, left = 0, batch.count
        while left > 0:
            record, after = parse_record(data, at)
            if record.value is not None:
                return at, left, record
            self.add(batch, record)
            at, left = after, left - 1
        _check_end(data, at)
        return at, left, None

    def take_rest(self, batch: RecordBatch, data: bytes, count: int) -> None:
        """Adds all records of a batch."""
        at = 0
        for _ in range(count):
            record, at = parse_record(data, at)
            self.add(batch, record)
        _check_end(data, at)

    def table(self) -> list[pa.Table]:
        """The records (RECORDS_SCHEMA), if there are any."""
        if not self._records:
            return []
        columns = [
            pa.array(self._offsets, pa.int64()),
            pa.array(self._times, pa.int64()),
            pa.array([r.key for r in self._records], pa.large_binary()),
            pa.array([r.value for r in self._records], pa.large_binary()),
            pa.array([_own_header(r) for r in self._records], pa.binary()),
        ]
        return [pa.Table.from_arrays(columns, schema=RECORDS_SCHEMA)]


class _Run:
    """Batches whose first records have the same shape: with or without a key, and the number of headers."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[tuple[RecordBatch, bytes, int]] = []

    def add(self, batch: RecordBatch, data: bytes, count: int) -> None:
        self._parts.append((batch, data, count))
        self.size += len(data)

    def take(self, single: _Singles) -> list[pa.Table]:
        """The records as columns, or added to ``single`` if they are few or not alike; the run is empty then."""
        parts, self._parts, self.size = self._parts, [], 0
        counts = [count for _, _, count in parts]
        columns = _by_columns(parts[0][1], [data for _, data, _ in parts], sum(counts)) if parts else None
        if columns is None:
            for batch, data, count in parts:
                with _damage(batch.base_offset):
                    single.take_rest(batch, data, count)
            return []
        times, offsets, keys, values, headers = columns
        own = np.repeat([not batch.has_append_time for batch, _, _ in parts], counts)
        bases = np.repeat([b.max_timestamp if b.has_append_time else b.base_timestamp for b, _, _ in parts], counts)
        firsts = np.repeat(np.array([batch.base_offset for batch, _, _ in parts], np.int64), counts)
        stamps = pa.array(bases + times * own, pa.int64())
        table = pa.Table.from_arrays([pa.array(firsts + offsets), stamps, keys, values, headers], schema=RECORDS_SCHEMA)
        return [table]


def _check_end(data: bytes, at: int) -> None:
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes follow the last record")


_Columns = tuple[np.ndarray, np.ndarray, pa.Array, pa.Array, pa.Array]
"""Timestamp deltas, offset deltas, keys, values, headers."""


def _by_columns(first: bytes, parts: Sequence[bytes], count: int) -> _Columns | None:
    """The records of all parts including ``first``; None if they are few or have different shapes."""
    record, _ = parse_record(first, 0)
    keyed, headers = record.key is not None, len(record.headers)
    if headers > 1 or count <= _FEW:
        return None
    size = sum(map(len, parts))
    numbers = encode_varint(count) + encode_varint(size)
    try:
        frame = pl.read_avro(io.BytesIO(b"".join([_avro_head(keyed, headers), numbers, *parts, _SYNC])))
    except (PolarsError, PanicException, OSError):
        return None
    sizes = _body_sizes(frame, keyed, headers)
    lengths = frame.get_column("length").to_numpy()
    # lengths that add up prove that each record begins where the one before it ends
    if len(frame) != count or (sizes != lengths).any() or (varint_sizes(lengths) + lengths).sum() != size:
        return None
    times, offsets = frame.get_column("time").to_numpy(), frame.get_column("offset").to_numpy()
    keys = frame.get_column("key").to_arrow() if keyed else pa.nulls(count, pa.large_binary())
    values = frame.get_column("value").to_arrow()
    return times, offsets, keys, values, _header_column(frame, count, headers)


def _header_column(frame: pl.DataFrame, count: int, headers: int) -> pa.Array:
    if not headers:
        return pa.nulls(count, pa.binary())
    ours = pc.equal(frame.get_column("name").to_arrow(), pa.scalar(HEADER_KEY.encode(), pa.large_binary()))
    header = frame.get_column("header").to_arrow().cast(pa.binary())
    return header if ours.true_count == count else pc.if_else(ours, header, pa.scalar(None, pa.binary()))


def _body_sizes(frame: pl.DataFrame, keyed: bool, headers: int) -> np.ndarray:
    """The length that each record must have for its fields; -1 if it has another number of headers."""
    sizes = np.ones(len(frame), np.int64)
    for name in ("time", "offset", "headers", *(() if keyed else ("key_size",))):
        sizes += varint_sizes(frame.get_column(name).to_numpy())
    for name in (*(("key",) if keyed else ()), "value", *(("name", "header") if headers else ())):
        lengths = frame.get_column(name).bin.size().to_numpy().astype(np.int64)
        sizes += varint_sizes(lengths) + lengths
    is_alike = frame.get_column("headers").to_numpy() == headers
    if not keyed:
        is_alike &= frame.get_column("key_size").to_numpy() == -1
    return np.where(is_alike, sizes, -1)


@cache
def _avro_head(keyed: bool, headers: int) -> bytes:
    """The head of an Avro file whose records are those of a batch."""
    long, data = "long", "bytes"
    fields = [("length", long), ("attributes", "boolean"), ("time", long), ("offset", long)]
    fields += [("key", data) if keyed else ("key_size", long), ("value", data), ("headers", long)]
    fields += [("name", data), ("header", data)] if headers else []
    named = [{"name": name, "type": kind} for name, kind in fields]
    schema = json.dumps({"type": "record", "name": "record", "fields": named}).encode()
    meta = {b"avro.schema": schema, b"avro.codec": b"null"}
    texts = [encode_varint(len(text)) + text for pair in meta.items() for text in pair]
    return b"".join([b"Obj\x01", encode_varint(len(meta)), *texts, encode_varint(0), _SYNC])


def _own_header(record: Record) -> bytes | None:
    """The first header of the protocol with a value."""
    return next((h for name, h in record.headers if name == HEADER_KEY.encode() and h is not None), None)
