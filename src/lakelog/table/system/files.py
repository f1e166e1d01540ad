"""System tables of data files, manifests, buckets and partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson
import pyarrow as pa

from lakelog.fileformat.avro_file import read_records
from lakelog.filestore.metadata.manifests import IndexManifests
from lakelog.filestore.read.plan import BucketKey
from lakelog.filestore.store import FileStore
from lakelog.options.option import Options
from lakelog.options.table import PARTITION_DEFAULT_NAME
from lakelog.paimon.metadata import table_statistics as statistics
from lakelog.paimon.metadata.column_stats import stats_bounds
from lakelog.paimon.metadata.data_file import APPEND_SOURCE, DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, ManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.binary_row import arity_of
from lakelog.paimon.rows.display import key_text, map_text, partition_path, partition_text, value_text
from lakelog.paimon.schema.schema import POSTPONE_BUCKET
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.checked_values import read_as
from lakelog.paimon.types.types import ArrayType, DataField, RowType
from lakelog.table.system.metadata import INT, LONG, TEXT, TIME, Columns, MetadataTable, needed, wall_clock


@dataclass
class FileCounts:
    """Rows, bytes and number of live files; ``newest_ms`` is the wall clock of the newest one, live or replaced."""

    rows: int = 0
    size: int = 0
    files: int = 0
    newest_ms: int | None = None


def count_files(store: FileStore, snapshot: Snapshot | None, by_bucket: bool) -> dict[BucketKey, FileCounts]:
    """The counts of each (partition, bucket) with live files.

    Unless ``by_bucket``, all buckets count as 0, and files without an assigned bucket (postponed) do not count.
    """
    out: dict[BucketKey, FileCounts] = {}
    for meta in () if snapshot is None else store.manifests.manifests_of(snapshot):
        for entry in store.manifests.read(meta.file_name):
            if entry.bucket == POSTPONE_BUCKET and not by_bucket:
                continue
            counts = out.setdefault((entry.partition, entry.bucket if by_bucket else 0), FileCounts())
            sign = 1 if entry.kind == ADD else -1
            counts.rows += sign * entry.file.row_count
            counts.size += sign * entry.file.file_size
            counts.files += sign
            times = [t for t in (counts.newest_ms, entry.file.creation_time_ms) if t is not None]
            counts.newest_ms = max(times, default=None)
    return {key: counts for key, counts in out.items() if counts.files > 0}


class Files(MetadataTable):
    """One row per live data file, with its keys and statistics."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT), ("bucket", needed(INT)), ("file_path", needed(TEXT)),
        ("file_format", needed(TEXT)), ("schema_id", needed(LONG)), ("level", needed(INT)),
        ("record_count", needed(LONG)), ("file_size_in_bytes", needed(LONG)), ("min_key", TEXT),
        ("max_key", TEXT), ("null_value_counts", needed(TEXT)), ("min_value_stats", needed(TEXT)),
        ("max_value_stats", needed(TEXT)), ("min_sequence_number", LONG), ("max_sequence_number", LONG),
        ("creation_time", TIME), ("deleteRowCount", LONG), ("file_source", TEXT), ("first_row_id", LONG),
        ("write_cols", ArrayType(TEXT)),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        store = self.table.store
        for entry in live_entries(self):
            file = entry.file
            source = None if file.file_source is None else "APPEND" if file.file_source == APPEND_SOURCE else "COMPACT"
            yield (
                *key_columns(store, entry), *statistics_columns(store, file), file.min_sequence_number,
                file.max_sequence_number, wall_clock(file.creation_time_ms), file.delete_row_count, source,
                file.first_row_id, file.write_cols,
            )  # fmt: skip


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


class Buckets(MetadataTable):
    """Rows, files and bytes of each bucket that has files."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT), ("bucket", needed(INT)), ("record_count", needed(LONG)),
        ("file_size_in_bytes", needed(LONG)), ("file_count", needed(LONG)), ("last_update_time", TIME),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        store = self.table.store
        counts = count_files(store, self.snapshot(), by_bucket=True)
        named = {(partition_text(p, store.schema), bucket): c for (p, bucket), c in counts.items()}
        for (partition, bucket), c in sorted(named.items()):
            yield partition, bucket, c.rows, c.size, c.files, wall_clock(c.newest_ms)


class FileKeyRanges(MetadataTable):
    """One row per live data file, with its smallest and largest key."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT), ("bucket", needed(INT)), ("file_path", needed(TEXT)),
        ("file_format", needed(TEXT)), ("schema_id", needed(LONG)), ("level", needed(INT)),
        ("record_count", needed(LONG)), ("file_size_in_bytes", needed(LONG)), ("min_key", TEXT),
        ("max_key", TEXT), ("first_row_id", LONG),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        store = self.table.store
        return ((*key_columns(store, entry), entry.file.first_row_id) for entry in live_entries(self))


class ManifestFiles(MetadataTable):
    """One row per manifest: of the base list, the delta list, the changelog list."""

    COLUMNS: ClassVar[Columns] = (
        ("file_name", needed(TEXT)), ("file_size", needed(LONG)), ("num_added_files", needed(LONG)),
        ("num_deleted_files", needed(LONG)), ("schema_id", needed(LONG)), ("min_partition_stats", TEXT),
        ("max_partition_stats", TEXT), ("min_row_id", LONG), ("max_row_id", LONG),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        store, snapshot = self.table.store, self.snapshot()
        if snapshot is None:
            return
        lists = snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list
        for name in filter(None, lists):
            for record in read_records(store.io.read(store.paths.manifest(name))):
                stats = record["_PARTITION_STATS"]
                yield (
                    record["_FILE_NAME"], record["_FILE_SIZE"], record["_NUM_ADDED_FILES"],
                    record["_NUM_DELETED_FILES"], record["_SCHEMA_ID"],
                    partition_text(stats["_MIN_VALUES"], store.schema),
                    partition_text(stats["_MAX_VALUES"], store.schema), record.get("_MIN_ROW_ID"),
                    record.get("_MAX_ROW_ID"),
                )  # fmt: skip


class Partitions(MetadataTable):
    """Rows, files and bytes of each partition that has files."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT), ("record_count", needed(LONG)), ("file_size_in_bytes", needed(LONG)),
        ("file_count", needed(LONG)), ("last_update_time", TIME), ("created_at", TIME), ("created_by", TEXT),
        ("updated_by", TEXT), ("options", TEXT),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        store = self.table.store
        default = Options(store.schema.options).need(PARTITION_DEFAULT_NAME)
        counts = count_files(store, self.snapshot(), by_bucket=False)
        named = [(partition_path(p, store.schema, default, None, default), c) for (p, _), c in counts.items()]
        for name, c in sorted(named, key=lambda item: item[0]):
            yield name, c.rows, c.size, c.files, wall_clock(c.newest_ms), None, None, None, None


class TableStatistics(MetadataTable):
    """The result of ANALYZE as one row; none if the schema has changed since."""

    COLUMNS: ClassVar[Columns] = (
        ("snapshot_id", needed(LONG)), ("schema_id", needed(LONG)), ("mergedRecordCount", LONG),
        ("mergedRecordSize", LONG), ("colstat", TEXT),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        store, snapshot = self.table.store, self.snapshot()
        if snapshot is None or snapshot.statistics is None:
            return
        path = store.paths.statistics_file(snapshot.statistics)
        values = read_as(store.io, path, orjson.loads)
        read_as(store.io, path, statistics.TableStatistics.from_json)
        columns = json.dumps(values.get("colStats") or {}, indent=2, separators=(",", " : "), ensure_ascii=False)
        counts = values.get("mergedRecordCount"), values.get("mergedRecordSize")
        yield values["snapshotId"], values["schemaId"], *counts, columns


class TableIndexes(MetadataTable):
    """One row per index file: deletion vectors, hashes of keys."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT),
        ("bucket", needed(INT)),
        ("index_type", needed(TEXT)),
        ("file_name", needed(TEXT)),
        ("file_size", needed(LONG)),
        ("row_count", needed(LONG)),
        (
            "dv_ranges",
            ArrayType(
                RowType(
                    (
                        DataField(0, "f0", needed(TEXT)),
                        DataField(1, "f1", needed(INT)),
                        DataField(2, "f2", needed(INT)),
                        DataField(3, "_CARDINALITY", LONG),
                    )
                )
            ),
        ),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        store = self.table.store
        for entry in IndexManifests(store.manifests).entries(self.snapshot()):
            vectors = entry.deletion_vectors
            ranges = None if vectors is None else [(v.data_file, v.offset, v.length, v.cardinality) for v in vectors]
            yield (
                partition_text(entry.partition, store.schema), entry.bucket, entry.index_type, entry.file_name,
                entry.file_size, entry.row_count, ranges,
            )  # fmt: skip
