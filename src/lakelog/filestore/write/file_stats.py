"""Row statistics in the metadata of a data file, collected during the write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN
from lakelog.options.option import Options
from lakelog.options.table import STATS_DENSE, STATS_FIRST_COLUMNS, THIN_MODE
from lakelog.paimon.metadata.column_stats import DEFAULT_MODE, collect_stats, parse_stats_modes
from lakelog.paimon.metadata.data_file import EMPTY_ROW, DataFileMeta, SimpleStats
from lakelog.paimon.rows.binary_row import encode_row
from lakelog.paimon.rows.bucket import python_values
from lakelog.paimon.rows.row_kind import DELETE, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import DataField

_KEY_MODE: Final = "truncate(128)"
"""Mode of the key columns' own statistics, independent of the mode of the values."""


@dataclass
class FileStats:
    """Counts, key range, sequence numbers and column bounds of the rows of one file."""

    schema: TableSchema
    mode: str = DEFAULT_MODE
    row_count: int = 0
    arrow_bytes: int = 0
    delete_count: int = 0
    min_sequence: int = 0
    max_sequence: int = 0
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    _null_counts: list[int] = field(default_factory=list)
    _bounds: list[pa.Table] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the next rows (table columns, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``), in key order."""
        sequences = pc.min_max(batch.column(SEQUENCE_COLUMN)).as_py()
        kinds = batch.column(KIND_COLUMN)
        keys = [batch.column(k) for k in self.schema.trimmed_primary_keys]
        nulls = [batch.column(f.name).null_count for f in self.schema.fields]
        if self.row_count == 0:
            self.min_sequence, self.max_sequence = sequences["min"], sequences["max"]
            self.min_key = self._key(keys, 0)
            self._null_counts = nulls
        else:
            self.min_sequence = min(self.min_sequence, sequences["min"])
            self.max_sequence = max(self.max_sequence, sequences["max"])
            self._null_counts = [a + b for a, b in zip(self._null_counts, nulls, strict=True)]
        self.max_key = self._key(keys, batch.num_rows - 1)
        self.delete_count += pc.sum(pc.or_(pc.equal(kinds, UPDATE_BEFORE), pc.equal(kinds, DELETE))).as_py() or 0
        self.row_count += batch.num_rows
        self.arrow_bytes += batch.nbytes
        self._bounds.append(
            pa.Table.from_arrays(
                [_extremes(batch.column(f.name)) for f in self.schema.fields], schema=_nullable(self.schema)
            )
        )

    def meta(self, file_name: str, file_size: int, level: int, source: int, creation_time_ms: int) -> DataFileMeta:
        """The metadata of the finished file."""
        keys = self.schema.select(self.schema.trimmed_primary_keys)
        value_stats, columns = self._value_stats()
        return DataFileMeta(
            file_name=file_name,
            file_size=file_size,
            row_count=self.row_count,
            min_key=self.min_key,
            max_key=self.max_key,
            key_stats=self._stats(keys, dict.fromkeys((k.name for k in keys), _KEY_MODE)),
            value_stats=value_stats,
            value_stats_cols=columns,
            min_sequence_number=self.min_sequence,
            max_sequence_number=self.max_sequence,
            schema_id=self.schema.id,
            level=level,
            creation_time_ms=creation_time_ms,
            delete_row_count=self.delete_count,
            file_source=source,
        )

    def _key(self, keys: Sequence[pa.Array], row: int) -> bytes:
        types = [f.type for f in self.schema.select(self.schema.trimmed_primary_keys)]
        return encode_row([python_values(k.slice(row, 1))[0] for k in keys], types)

    def _value_stats(self) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """Statistics of the columns, and the names of the included columns (None: all)."""
        options = Options(self.schema.options)
        modes = self._modes(options)
        kept = [f for f in self.schema.fields if modes[f.name].strip().lower() != "none"]
        if not options.need(STATS_DENSE) and not kept:
            unknown = [None] * len(modes)
            row = encode_row(unknown, [f.type for f in self.schema.fields])
            return SimpleStats(row, row, tuple(unknown)), None
        if not options.need(STATS_DENSE) or len(kept) == len(self.schema.fields):
            return self._stats(self.schema.fields, modes), None
        return self._stats(kept, modes), tuple(f.name for f in kept)

    def _modes(self, options: Options) -> dict[str, str]:
        """Column → mode: its own, or that of the file; in thin files keys always have statistics."""
        given = parse_stats_modes(options)
        keys = self.schema.trimmed_primary_keys if options.need(THIN_MODE) else ()
        first = options.need(STATS_FIRST_COLUMNS)
        modes: dict[str, str] = {}
        counted = 0
        for name in self.schema.field_names:
            if name in keys and name not in given:
                modes[name] = _KEY_MODE
                continue
            modes[name] = given.get(name, "none" if 0 <= first <= counted else self.mode)
            counted += 1
        return modes

    def _stats(self, fields: Sequence[DataField], modes: Mapping[str, str]) -> SimpleStats:
        bounds = pa.concat_tables(self._bounds)
        stats = collect_stats(bounds, fields, "none", modes)
        # the null count covers all rows, not only the bounds
        counts = dict(zip(self.schema.field_names, self._null_counts, strict=True))
        kept = zip(fields, stats.null_counts, strict=False)
        return replace(stats, null_counts=tuple(None if n is None else counts[f.name] for f, n in kept))


def _nullable(schema: TableSchema) -> pa.Schema:
    return pa.schema([f.with_nullable(True) for f in arrow_schema(schema.fields)])


def _extremes(column: pa.Array) -> pa.Array:
    """Three values that include the minimum and the maximum of the column (and NaN if present)."""
    kind = column.type
    if pa.types.is_nested(kind) or column.null_count == len(column):
        return pa.nulls(3, kind)
    nan = None
    if pa.types.is_floating(kind):
        is_nan = pc.is_nan(column)
        if pc.any(is_nan).as_py():
            nan = float("nan")
            column = column.filter(pc.invert(is_nan))
    extremes = pc.min_max(column)
    return pa.array([extremes["min"], extremes["max"], pa.scalar(nan, kind)], kind)
