"""Reads the data of a preview. Runs in its own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from lakelog.lake import Lake
from lakelog.service.dashboard.previews.grid import (
    Grid,
    HistoryRequest,
    Request,
    RowsRequest,
    SystemRequest,
    column_page,
    grid_of,
    in_utc,
)
from lakelog.service.dashboard.previews.records import RecordLines
from lakelog.service.dashboard.previews.row_history import RowHistory

LISTED_TABLES: Final[dict[str, tuple[str, ...] | None]] = {
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


def read_grid(lake: Lake, request: Request) -> Grid:
    """The grid of a request. Raises the errors of reading."""
    if isinstance(request, RowsRequest):
        return _rows(lake, request)
    if isinstance(request, SystemRequest):
        scan = lake.table(f"{request.table}${request.kind}").scan(columns=LISTED_TABLES[request.kind])
        return grid_of(map(in_utc, _tables(scan.limit(request.limit + 1).to_batches())), request.limit)
    if isinstance(request, HistoryRequest):
        return RowHistory(lake.table(request.table).logical, request).read()
    return RecordLines(lake.table(request.table).logical, request).read()


def _rows(lake: Lake, request: RowsRequest) -> Grid:
    table = lake.table(request.table)
    names = table.schema.names
    shown = column_page(names, request.first_column) or column_page(names, 0)
    grid = grid_of(
        _tables(table.scan(columns=shown, filter=request.where or None).to_batches()), request.limit, len(names)
    )
    return grid if grid.columns else Grid(shown, (), False, len(names))


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    return (pa.Table.from_batches([batch]) for batch in batches)
