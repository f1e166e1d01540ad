"""Reads the data of a preview. Runs in its own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest
from lakelog.lake import Lake
from lakelog.logstore.base import LogReader
from lakelog.logstore.protocol.header import ABORT, BEGIN, COMMIT, CORRECTION, DATA, decode_header
from lakelog.service.dashboard.previews.grid import (
    VALUE_CHARACTERS,
    Grid,
    RecordsRequest,
    Request,
    RowsRequest,
    SystemRequest,
    column_page,
    grid_of,
)
from lakelog.table.log.scan import LogScan

SYSTEM_TABLES: Final[dict[str, tuple[str, ...] | None]] = {
    "files": (
        "partition",
        "bucket",
        "level",
        "record_count",
        "file_size_in_bytes",
        "creation_time",
        "file_source",
        "file_path",
    ),
    "partitions": None,
    "buckets": None,
    "schemas": None,
    "tags": None,
    "branches": None,
    "consumers": None,
    "options": None,
}
"""System tables that a page lists, with the displayed columns (None: all)."""
_RECORD_COLUMNS: Final = ("offset", "time", "kind", "writer", "epoch", "attempt", "key", "value", "bytes")
_KINDS: Final = {DATA: "data", CORRECTION: "correction", BEGIN: "begin", COMMIT: "commit", ABORT: "abort"}
_CHUNK: Final = 1_000


def read_grid(lake: Lake, request: Request) -> Grid:
    """The grid of a request. Raises the errors of reading."""
    if isinstance(request, RowsRequest):
        return _rows(lake, request)
    if isinstance(request, SystemRequest):
        scan = lake.table(f"{request.table}${request.kind}").scan(columns=SYSTEM_TABLES[request.kind])
        return grid_of(_tables(scan.to_batches()), request.limit)
    return _records(lake, request)


def _rows(lake: Lake, request: RowsRequest) -> Grid:
    table = lake.table(request.table)
    names = table.schema.names
    shown = column_page(names, request.first_column) or column_page(names, 0)
    found = grid_of(_tables(table.scan(columns=shown).to_batches()), request.limit, len(names))
    return found if found.columns else Grid(shown, (), False, len(names))


def _records(lake: Lake, request: RecordsRequest) -> Grid:
    scan = LogScan(lake.table(request.table).logical)
    reader, bucket = scan.reader, request.bucket
    ends = reader.end_offsets()
    if bucket not in ends:
        raise InvalidRequest(f"table {request.table} has buckets {min(ends)} to {max(ends)}, not {bucket}")
    start = _start(reader, request, ends[bucket])
    rows: list[list[Any]] = []
    for chunk in reader.chunks(bucket, start, ends[bucket], _CHUNK):
        found = _with_key(chunk, request.key)
        rows += [_record(one) for one in found.slice(0, request.limit + 1 - len(rows)).to_pylist()]
        if len(rows) > request.limit:
            break
    return Grid(_RECORD_COLUMNS, rows[: request.limit], len(rows) > request.limit, len(_RECORD_COLUMNS))


def _start(reader: LogReader, request: RecordsRequest, end: int) -> int:
    bucket = request.bucket
    first = reader.first_offsets([bucket])[bucket]
    if request.offset is not None:
        return max(first, request.offset)
    if request.time_ms is not None:
        return max(first, reader.offsets_at(request.time_ms)[bucket])
    return first if request.key else max(first, end - request.limit)


def _with_key(chunk: pa.Table, key: str) -> pa.Table:
    if not key:
        return chunk
    found = pc.find_substring(chunk.column("key"), key.encode())
    return chunk.filter(pc.fill_null(pc.greater_equal(found, 0), False))


def _record(record: dict[str, Any]) -> list[Any]:
    header = decode_header(record["header"], record["offset"])
    time = str(np.datetime64(record["timestamp_ms"], "ms")) + "Z"
    kind = _KINDS.get(header.kind, header.kind)
    taken = sum(len(record[part] or b"") for part in ("key", "value", "header"))
    key, value = _text(record["key"]), _text(record["value"])
    return [record["offset"], time, kind, header.writer, header.epoch, header.attempt, key, value, taken]


def _text(data: bytes | None) -> str | None:
    """Bytes as text if they are UTF-8, otherwise in hexadecimal."""
    if data is None:
        return None
    cut, more = data[:VALUE_CHARACTERS], "…" if len(data) > VALUE_CHARACTERS else ""
    text = cut.decode("utf-8", "replace")
    return (text if text.replace("\n", " ").isprintable() and "\ufffd" not in text else f"0x{cut.hex()}") + more


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    return (pa.Table.from_batches([batch]) for batch in batches)
