"""The statistics file of a table: the result of ANALYZE as JSON (format sheet 12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from lakelog.errors import Corrupt
from lakelog.paimon.types.checked_values import checked, metadata_json


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column; None is unknown.

    ``min`` and ``max`` are texts: a number as it is, a DATE as days since 1970, a timestamp as SQL writes it, a TIME as
    milliseconds of the day; text and bytes have none. ``avg_len`` and ``max_len`` are bytes.
    """

    column_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    avg_len: int | None = None
    max_len: int | None = None


_KEYS = {
    "colId": "column_id", "distinctCount": "distinct_count", "min": "min", "max": "max", "nullCount": "null_count",
    "avgLen": "avg_len", "maxLen": "max_len",
}  # fmt: skip


@dataclass(frozen=True)
class TableStatistics:
    """Statistics of a table as one snapshot had it: rows, their bytes in files, and columns by name."""

    snapshot_id: int
    schema_id: int
    row_count: int | None = None
    size_bytes: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The bytes of the file."""
        columns = {
            name: {key: value for key, own in _KEYS.items() if (value := getattr(column, own)) is not None}
            for name, column in self.columns.items()
        }
        out: dict[str, Any] = {"snapshotId": self.snapshot_id, "schemaId": self.schema_id}
        if self.row_count is not None:
            out["mergedRecordCount"] = self.row_count
        if self.size_bytes is not None:
            out["mergedRecordSize"] = self.size_bytes
        return orjson.dumps({**out, "colStats": columns}, option=orjson.OPT_INDENT_2)

    @staticmethod
    def from_json(data: bytes) -> TableStatistics:
        """Reads a file. Raises Corrupt."""
        try:
            found: dict[str, Any] = metadata_json(data)
            columns = {
                name: ColumnStatistics(**{own: column.get(key) for key, own in _KEYS.items()})
                for name, column in (found.get("colStats") or {}).items()
            }
            return checked(
                TableStatistics(
                    int(found["snapshotId"]),
                    int(found["schemaId"]),
                    found.get("mergedRecordCount"),
                    found.get("mergedRecordSize"),
                    columns,
                )
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError) as why:
            raise Corrupt(f"not a statistics file: {why!r}") from None
