"""ANALYZE: statistics of a snapshot, computed batch by batch and committed next to the data (format sheet 12)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.names import new_uuid
from lakelog.paimon.metadata.snapshot import ANALYZE, Snapshot
from lakelog.paimon.metadata.table_statistics import ColumnStatistics, TableStatistics
from lakelog.paimon.rows.bucket import python_values
from lakelog.paimon.types.checked_values import read_as
from lakelog.paimon.types.types import AtomicType, DataField, is_ordered
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import carried_state

_SKETCH: Final = 1 << 16
"""Number of smallest hashes to keep per column; up to it distinct values are counted, beyond it estimated."""
_SIZES: Final = {
    "BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "TIME": 4, "FLOAT": 4, "BIGINT": 8, "DOUBLE": 8,
    "TIMESTAMP": 8, "TIMESTAMP_LTZ": 8,
}  # fmt: skip
_WITHOUT_BOUNDS: Final = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")


def analyze(table: DynamicTable, columns: Sequence[str] | None = None) -> Snapshot | None:
    """Computes the statistics of the newest snapshot and commits them; None for a table without a snapshot.

    ``columns`` () means the table alone, None all columns; nested ones have no statistics. Raises InvalidSchema for an
    unknown column.
    """
    store = table.store
    named = table.schema.field_names if columns is None else tuple(columns)
    fields = [f for f in table.schema.select(named) if is_ordered(f.type)]
    latest = store.latest_snapshot()
    if latest is None:
        return None
    sketches = [_Sketch(f, f.type) for f in fields if isinstance(f.type, AtomicType)]
    rows = 0
    for split in store.plan(snapshot_id=latest.id):
        for batch in store.read_split(split, [f.name for f in fields] or table.schema.field_names[:1]):
            rows += batch.num_rows
            for sketch in sketches:
                sketch.add(batch.column(sketch.column.name))
    live = store.live_entries(latest)
    physical = sum(e.file.row_count for e in live)
    size = sum(e.file.file_size for e in live)
    statistics = TableStatistics(
        latest.id,
        latest.schema_id,
        rows,
        size * rows // physical if physical else 0,
        {s.column.name: s.result() for s in sketches},
    )
    name = f"stat-{new_uuid()}-0"
    table.io.write(store.paths.statistics_file(name), statistics.to_json())
    request = CommitRequest(
        f"analyze-{new_uuid()}",
        0,
        ANALYZE,
        statistics=name,
        prepare=lambda s: carried_state(table.store, s),
        first_try=True,
    )
    return store.commit(request)


def table_statistics(table: DynamicTable) -> TableStatistics | None:
    """The result of the last ANALYZE, if the schema has not changed; None without. Raises Corrupt."""
    latest = table.store.latest_snapshot()
    if latest is None or latest.statistics is None:
        return None
    return read_as(table.io, table.store.paths.statistics_file(latest.statistics), TableStatistics.from_json)


@dataclass
class _Sketch:
    """The statistics of one column, of bounded size."""

    column: DataField
    kind: AtomicType
    nulls: int = 0
    rows: int = 0
    low: Any = None
    high: Any = None
    bytes: int = 0
    longest: int = 0
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    full: bool = False

    def add(self, array: pa.Array) -> None:
        self.rows += len(array)
        self.nulls += array.null_count
        values = array.drop_null()
        if not len(values):
            return
        self._count(values)
        if self.kind.root in _WITHOUT_BOUNDS:
            lengths = pc.binary_length(values)
            self.bytes += pc.sum(lengths).as_py()
            self.longest = max(self.longest, pc.max(lengths).as_py())
        else:
            self._bound(values)

    def _count(self, values: pa.Array) -> None:
        fresh = pl.Series(pl.from_arrow(values)).unique().hash(seed=0).to_numpy()
        merged: npt.NDArray[np.uint64] = np.union1d(self.hashes, fresh.astype(np.uint64))
        self.full = self.full or len(merged) > _SKETCH
        self.hashes = merged[:_SKETCH]

    def _bound(self, values: pa.Array) -> None:
        if pa.types.is_floating(values.type):
            if pc.any(pc.is_nan(values)).as_py():
                self.high = math.nan
            values = values.filter(pc.invert(pc.is_nan(values)))
            if not len(values):
                self.low = math.nan if self.low is None else self.low
                return
        extremes = pc.min_max(values)
        low, high = (python_values(pa.array([extremes[part].as_py()], values.type))[0] for part in ("min", "max"))
        self.low = low if self.low is None or _is_nan(self.low) else min(self.low, low)
        self.high = self.high if _is_nan(self.high) else high if self.high is None else max(self.high, high)

    def result(self) -> ColumnStatistics:
        values = self.rows - self.nulls
        if self.kind.root in _WITHOUT_BOUNDS:
            average, longest = -(-self.bytes // values) if values else 0, self.longest
        else:
            average = longest = _SIZES.get(self.kind.root, 8 if (self.kind.precision or 0) <= 18 else 16)
        return ColumnStatistics(
            self.column.id,
            self._distinct(),
            self._text(self.low),
            self._text(self.high),
            self.nulls,
            average,
            longest,
        )

    def _distinct(self) -> int:
        if not self.full:
            return len(self.hashes)
        return round((_SKETCH - 1) * 2.0**64 / float(self.hashes[-1]))

    def _text(self, value: Any) -> str | None:
        if value is None:
            return None
        if self.kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            return _stamp_text(value, self.kind.precision or 0)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else str(value).replace("inf", "Infinity")
        return f"{value:f}" if self.kind.root == "DECIMAL" else str(value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _stamp_text(value: int, precision: int) -> str:
    """SQL text with the digits of the type; ``value`` counts the unit of the type since 1970."""
    per_second = 10 ** (3 if precision <= 3 else 6 if precision <= 6 else 9)
    seconds, below = divmod(value, per_second)
    day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    digits = f"{below * (10**9 // per_second):09d}"
    fraction = digits[:precision] + digits[precision:].rstrip("0")
    return f"{day.year:04d}-{day:%m-%d %H:%M:%S}" + (f".{fraction}" if fraction else "")
