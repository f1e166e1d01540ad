"""All rows of a table that match a condition, as the chunks of a file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import orjson
import pyarrow as pa

from lakelog.lake import Lake
from lakelog.lake.output.plain_rows import JSON_OPTIONS, plain_rows
from lakelog.service.dashboard.previews.grid import ExportRequest
from lakelog.service.terminal.protocol.results import csv_of

HEAD: Final = struct.Struct(">BI")
"""The head of a chunk between two processes: what it is, and its length."""
MORE, COMPLETE, FAILED = range(3)


def export_chunks(lake: Lake, request: ExportRequest) -> Iterator[bytes]:
    """CSV with a header, or JSON lines, a chunk for each batch. Raises the errors of reading."""
    scan = lake.table(request.table).scan(filter=request.where or None)
    names = scan.schema.names
    if request.format == "csv":
        yield csv_of(names, ())
    for batch in scan.to_batches():
        yield _chunk(request.format, names, pa.Table.from_batches([batch]))


def _chunk(form: str, names: list[str], rows: pa.Table) -> bytes:
    if form == "csv":
        plain = (orjson.loads(orjson.dumps(row, default=str, option=JSON_OPTIONS)) for row in plain_rows(rows))
        return csv_of(None, plain)
    options = JSON_OPTIONS | orjson.OPT_APPEND_NEWLINE
    lines = (dict(zip(names, row, strict=True)) for row in plain_rows(rows))
    return b"".join(orjson.dumps(line, default=str, option=options) for line in lines)
