"""The way in: a warehouse, its tables, its SQL."""

from __future__ import annotations

from lakelog.lake.lake import Lake
from lakelog.lake.opening import attach, connect, open_table, scan_polars
from lakelog.lake.output.result import Result, TableResult
from lakelog.lake.settings import HIGH_THROUGHPUT, LOW_LATENCY
from lakelog.lake.table import Table, pipe

__all__ = [
    "HIGH_THROUGHPUT", "LOW_LATENCY", "Lake", "Result", "Table", "TableResult", "attach", "connect", "open_table",
    "pipe", "scan_polars",
]  # fmt: skip
