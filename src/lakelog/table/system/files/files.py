"""``$files``: the live data files, with their keys and statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

from lakelog.filestore.store import FileStore
from lakelog.paimon.metadata.column_stats import stats_bounds
from lakelog.paimon.metadata.data_file import APPEND_SOURCE, DataFileMeta
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.rows.binary_row import arity_of
from lakelog.paimon.rows.display import key_text, map_text, partition_text, value_text
from lakelog.paimon.schema.schema import POSTPONE_BUCKET
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.types import ArrayType, DataField
from lakelog.table.system.metadata import INT, LONG, TEXT, TIME, Columns, MetadataTable, needed, wall_clock


class Files(MetadataTable):
    """One row per live data file."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT),
        ("bucket", needed(INT)),
        ("file_path", needed(TEXT)),
        ("file_format", needed(TEXT)),
        ("schema_id", needed(LONG)),
        ("level", needed(INT)),
        ("record_count", needed(LONG)),
        ("file_size_in_bytes", needed(LONG)),
        ("min_key", TEXT),
        ("max_key", TEXT),
        ("null_value_counts", needed(TEXT)),
        ("min_value_stats", needed(TEXT)),
        ("max_value_stats", needed(TEXT)),
        ("min_sequence_number", LONG),
        ("max_sequence_number", LONG),
        ("creation_time", TIME),
        ("deleteRowCount", LONG),
        ("file_source", TEXT),
        ("first_row_id", LONG),
        ("write_cols", ArrayType(TEXT)),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The files."""
        store = self.table.store
        for entry in live_entries(self):
            file = entry.file
            source = None if file.file_source is None else "APPEND" if file.file_source == APPEND_SOURCE else "COMPACT"
            yield (
                *key_columns(store, entry),
                *statistics_columns(store, file),
                file.min_sequence_number,
                file.max_sequence_number,
                wall_clock(file.creation_time_ms),
                file.delete_row_count,
                source,
                file.first_row_id,
                file.write_cols,
            )


def live_entries(table: MetadataTable) -> list[ManifestEntry]:
    """The live files of all levels, without those that have no assigned bucket."""
    return [e for e in table.table.store.live_entries(table.snapshot()) if e.bucket != POSTPONE_BUCKET]


def key_columns(store: FileStore, entry: ManifestEntry) -> tuple[Any, ...]:
    """The path and size of a file, and its smallest and largest key."""
    file = entry.file
    written = store.schemas.get(file.schema_id)
    types = [f.type for f in written.select(written.trimmed_primary_keys)]
    return (
        partition_text(entry.partition, store.schema),
        entry.bucket,
        store.paths.data_file(entry.partition, entry.bucket, file),
        _format(file.file_name),
        file.schema_id,
        file.level,
        file.row_count,
        file.file_size,
        key_text(file.min_key, types),
        key_text(file.max_key, types),
    )


def statistics_columns(store: FileStore, file: DataFileMeta) -> tuple[str, str, str]:
    """NULL counts, smallest and largest values as ``{column=value, …}`` of the table's current columns.

    A column that the file does not have is NULL in all its rows; one without statistics is shown as null.
    """
    written = store.schemas.get(file.schema_id)
    kept = written.field_names if file.value_stats_cols is None else file.value_stats_cols
    positions = {field.id: (at, field) for at, field in enumerate(written.select(kept))}
    types = [field.type for _, field in positions.values()]
    there = {field.id for field in written.fields}
    nulls, lows, highs = {}, {}, {}
    if arity_of(file.value_stats.min_values) == 0 and file.value_stats_cols is None:
        return "{}", "{}", "{}"
    for field in store.schema.fields:
        at, source = positions.get(field.id, (None, None))
        low = high = count = None
        if field.id not in there:
            count = file.row_count
        if at is not None and source is not None:
            low, high, count = stats_bounds(file.value_stats, types, at)
        nulls[field.name] = "null" if count is None else str(count)
        lows[field.name] = _shown(low, source, field)
        highs[field.name] = _shown(high, source, field)
    return map_text(nulls), map_text(lows), map_text(highs)


def _shown(value: Any, source: DataField | None, field: DataField) -> str:
    if value is None or source is None:
        return "null"
    old, new = arrow_type(source.type), arrow_type(field.type)
    if old != new:
        value = pa.array([value], old).cast(new, safe=False)[0].as_py()
    return value_text(value, field.type)


def _format(name: str) -> str:
    """The format from a file's name: its last suffix, or the one before the compression suffix."""
    parts = name.split(".")
    return parts[-2] if len(parts) > 2 and parts[-1] in ("gz", "bz2", "deflate", "snappy", "lz4", "zst") else parts[-1]
