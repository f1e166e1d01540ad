"""Record batches to records, by columns.

The bytes of a batch's records have the form of an Avro block: zigzag longs and length-prefixed bytes. So the Avro
reader of polars parses them, if they are alike: with a value, all or none with a key, all with one header or none. Null
values before them (``begin``) are parsed one by one. Other batches, of other producers, are parsed record by record.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PanicException, PolarsError

from lakelog.errors import Corrupt
from lakelog.logstore.base import RECORDS_SCHEMA
from lakelog.logstore.protocol.header import HEADER_KEY
from lakelog.logstore.record_batch.batch import RecordBatch
from lakelog.logstore.record_batch.compression import decompress
from lakelog.logstore.record_batch.record import Record, parse_record
from lakelog.logstore.record_batch.varint import encode_varint, varint_sizes

_FEW: Final = 8
"""Number of records that are faster to parse one by one."""
_SYNC: Final = bytes(16)


def decode(batch: RecordBatch) -> pa.Table:
    """The records of a batch (RECORDS_SCHEMA), in order; none of a control batch.

    The header is that of the protocol, or null. The caller leaves out aborted transactions. Raises Corrupt,
    UnsupportedFeature.
    """
    if batch.is_control:
        return RECORDS_SCHEMA.empty_table()
    data = decompress(batch.payload, batch.codec)
    try:
        lead, at = _leading(data, batch.count)
        count = batch.count - len(lead)
        alike = _by_columns(data, at, count) if count > _FEW else None
        if alike is None:
            while len(lead) < batch.count:
                record, at = parse_record(data, at)
                lead.append(record)
            if at != len(data):
                raise ValueError(f"{len(data) - at} bytes follow the last record")
    except (IndexError, ValueError) as wrong:
        raise Corrupt(f"the record batch at offset {batch.base_offset} is damaged: {wrong}") from wrong
    parts = [_framed(batch, *_columns(lead))] if lead else []
    if alike is not None:
        parts.append(_framed(batch, *alike))
    return pa.concat_tables(parts) if parts else RECORDS_SCHEMA.empty_table()


def _leading(data: bytes, count: int) -> tuple[list[Record], int]:
    """The first records without a value, and the position after them."""
    found: list[Record] = []
    at = 0
    while len(found) < count:
        record, after = parse_record(data, at)
        if record.value is not None:
            break
        found.append(record)
        at = after
    return found, at


_Columns = tuple[np.ndarray, np.ndarray, pa.Array, pa.Array, pa.Array]
"""Timestamp deltas, offset deltas, keys, values, headers."""


def _by_columns(data: bytes, at: int, count: int) -> _Columns | None:
    """The records from a position on; None if they are not alike."""
    first, _ = parse_record(data, at)
    keyed, headers = first.key is not None, len(first.headers)
    if headers > 1:
        return None
    body = data[at:] if at else data
    size = encode_varint(count) + encode_varint(len(body))
    try:
        found = pl.read_avro(io.BytesIO(b"".join([_avro_head(keyed, headers), size, body, _SYNC])))
    except (PolarsError, PanicException, OSError):
        return None
    sizes = _body_sizes(found, keyed, headers)
    lengths = found.get_column("length").to_numpy()
    # lengths that add up prove that each record begins where the one before it ends
    if len(found) != count or (sizes != lengths).any() or (varint_sizes(lengths) + lengths).sum() != len(body):
        return None
    times, offsets = found.get_column("time").to_numpy(), found.get_column("offset").to_numpy()
    keys = found.get_column("key").to_arrow() if keyed else pa.nulls(count, pa.large_binary())
    values = found.get_column("value").to_arrow()
    return times, offsets, keys, values, _header_column(found, count, headers)


def _header_column(found: pl.DataFrame, count: int, headers: int) -> pa.Array:
    if not headers:
        return pa.nulls(count, pa.binary())
    ours = pc.equal(found.get_column("name").to_arrow(), pa.scalar(HEADER_KEY.encode(), pa.large_binary()))
    header = found.get_column("header").to_arrow().cast(pa.binary())
    return header if ours.true_count == count else pc.if_else(ours, header, pa.scalar(None, pa.binary()))


def _body_sizes(found: pl.DataFrame, keyed: bool, headers: int) -> np.ndarray:
    """The length that each record must have for its fields; -1 if it has another number of headers."""
    sizes = np.ones(len(found), np.int64)
    for name in ("time", "offset", "headers", *(() if keyed else ("key_size",))):
        sizes += varint_sizes(found.get_column(name).to_numpy())
    for name in (*(("key",) if keyed else ()), "value", *(("name", "header") if headers else ())):
        lengths = found.get_column(name).bin.size().to_numpy().astype(np.int64)
        sizes += varint_sizes(lengths) + lengths
    is_alike = found.get_column("headers").to_numpy() == headers
    if not keyed:
        is_alike &= found.get_column("key_size").to_numpy() == -1
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


def _columns(records: Sequence[Record]) -> _Columns:
    return (
        np.array([r.time for r in records], np.int64),
        np.array([r.offset for r in records], np.int64),
        pa.array([r.key for r in records], pa.large_binary()),
        pa.array([r.value for r in records], pa.large_binary()),
        pa.array([_own_header(r) for r in records], pa.binary()),
    )


def _own_header(record: Record) -> bytes | None:
    """The first header of the protocol with a value."""
    return next((h for name, h in record.headers if name == HEADER_KEY.encode() and h is not None), None)


def _framed(
    batch: RecordBatch, times: np.ndarray, offsets: np.ndarray, keys: pa.Array, values: pa.Array, headers: pa.Array
) -> pa.Table:
    stamps = np.full(len(times), batch.max_timestamp) if batch.has_append_time else batch.base_timestamp + times
    columns = [pa.array(batch.base_offset + offsets), pa.array(stamps), keys, values, headers]
    return pa.Table.from_arrays(columns, schema=RECORDS_SCHEMA)
