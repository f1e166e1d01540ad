"""The statistics file of a table: the result of ANALYZE as JSON (format sheet 12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.paimon.types.json_record import JsonRecord, stored_as


@dataclass(frozen=True)
class ColumnStatistics(JsonRecord, of_paimon=True):
    """Statistics of one column; None is unknown.

    ``min`` and ``max`` are texts: a number as it is, a DATE as days since 1970, a timestamp as SQL writes it, a TIME as
    milliseconds of the day; text and bytes have none. ``avg_len`` and ``max_len`` are bytes.
    """

    column_id: int = field(metadata=stored_as("colId"))
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    avg_len: int | None = None
    max_len: int | None = None


@dataclass(frozen=True)
class TableStatistics(JsonRecord, of_paimon=True):
    """Statistics of a table as one snapshot had it: rows, their bytes in files, and columns by name."""

    snapshot_id: int
    schema_id: int
    row_count: int | None = field(default=None, metadata=stored_as("mergedRecordCount"))
    size_bytes: int | None = field(default=None, metadata=stored_as("mergedRecordSize"))
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict, metadata=stored_as("colStats"))
