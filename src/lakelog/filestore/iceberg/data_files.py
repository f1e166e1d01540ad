"""The data files of a snapshot that Iceberg's readers see, and their entries in Iceberg's manifests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat.parquet import has_field_ids
from lakelog.filestore.iceberg.manifests import ADDED, Draft, Entry, partition_names, uri_of
from lakelog.filestore.iceberg.schemas import atomic_type, check_readable_as, iceberg_schema, raw_value, value_bytes
from lakelog.filestore.metadata.levels import has_deletes, has_only_deleted_keys, highest_level, is_apart
from lakelog.filestore.metadata.manifests import DELETION_VECTORS as VECTOR_INDEX
from lakelog.filestore.metadata.manifests import IndexManifests, Manifests
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.read.split_reader import engine_of
from lakelog.options.iceberg import ICEBERG_VERSION, VECTORS_VERSION
from lakelog.options.option import Options
from lakelog.options.table import DELETION_VECTORS, FILE_FORMAT, SEQUENCE_FIELD
from lakelog.paimon.metadata.column_stats import stats_bounds
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import POSTPONE_BUCKET, TableSchema

ALL_FILES: Final = "all"
ABOVE_LEVEL_ZERO: Final = "above level 0"
FULL_COMPACTION: Final = "last full compaction"
_UNKNOWN_ROWS: Final = (None, 0)
_WITH_IDS: Final[set[str]] = set()
"""Data files that are known to have field ids; only of tables in which a name is that of two columns."""


@dataclass(frozen=True)
class ExportedFiles:
    """Selection of data files: all of a table without a primary key, else those of the highest level.

    A full compaction writes that level, and its files in a bucket are together a state of the bucket (sheet 7). With
    deletion vectors each key has one row in all levels above 0, so these are selected.
    """

    manifests: Manifests
    schemas: Schemas
    version: int

    @property
    def _names_vectors(self) -> bool:
        return self.version >= VECTORS_VERSION

    def shown(self, schema: TableSchema) -> str:
        """Which files of a snapshot with this schema Iceberg's readers see."""
        if not schema.is_keyed:
            return ALL_FILES
        has_vectors = Options(schema.options).need(DELETION_VECTORS) and self._names_vectors
        return ABOVE_LEVEL_ZERO if has_vectors else FULL_COMPACTION

    def pick(self, entries: Sequence[ManifestEntry], schema: TableSchema) -> list[ManifestEntry]:
        """Those of the entries whose files Iceberg's readers see.

        Raises UnsupportedFeature if the files of the highest level lack values that a late row may still replace.
        """
        shown = self.shown(schema)
        if shown == ALL_FILES:
            return list(entries)
        engine = engine_of(schema)
        is_total = any(not f.type.nullable for f in schema.fields if f.name not in schema.primary_keys)
        is_late = shown == FULL_COMPACTION and engine.sequence_fields
        if engine.folds_apart and (is_late or is_total):
            for file in (e.file for e in entries if is_apart(e.file) and not has_only_deleted_keys(e.file)):
                raise UnsupportedFeature(
                    f"the data file {file.file_name} has values of rows that came late by "
                    f"'{SEQUENCE_FIELD.key}', or totals that do not fit, which only a merge can read: read this table "
                    "with its own format"
                )
        if shown == ABOVE_LEVEL_ZERO:
            above = (e for e in entries if e.file.level > 0 and e.bucket != POSTPONE_BUCKET)
            return [e for e in above if not has_only_deleted_keys(e.file)]
        lowest, tops = highest_level(schema), dict[tuple[bytes, int], int]()
        for e in entries:  # a bucket with files above the highest level was compacted when there were more levels
            bucket_key = e.partition, e.bucket
            tops[bucket_key] = max(tops.get(bucket_key, lowest), e.file.level)
        return [
            e
            for e in entries
            if e.file.level == tops[e.partition, e.bucket] and e.file.delete_row_count in _UNKNOWN_ROWS
        ]

    def check(self, entries: Sequence[ManifestEntry], snapshot: Snapshot, schema: TableSchema) -> None:
        """Raises UnsupportedFeature if the files, without the rows in their vectors, do not have the rows.

        Also for files of another format. ``schema`` is that of the snapshot.
        """
        shown, index = self.shown(schema), IndexManifests(self.manifests).entries(snapshot)
        if any(entry.index_type == VECTOR_INDEX for entry in index):
            if not self._names_vectors:
                raise UnsupportedFeature(
                    f"snapshot {snapshot.id} has deletion vectors, which Iceberg metadata of version 2 cannot name: "
                    f"set '{ICEBERG_VERSION.key}' = '{VECTORS_VERSION}'"
                )
            if shown == FULL_COMPACTION:
                raise UnsupportedFeature(
                    f"snapshot {snapshot.id} has deletion vectors, and '{DELETION_VECTORS.key}' is 'false', so its "
                    "rows must be merged: compact the table fully"
                )
        for entry in entries:
            if not entry.file.file_name.endswith(f".{FILE_FORMAT.default}"):
                raise UnsupportedFeature(
                    f"the data file {entry.file.file_name} is not a Parquet file, and has no field ids for Iceberg's "
                    f"readers: compact the table fully after '{FILE_FORMAT.key}' = '{FILE_FORMAT.default}'"
                )
            if shown == ABOVE_LEVEL_ZERO and has_deletes(entry.file):
                raise UnsupportedFeature(
                    f"the data file {entry.file.file_name} of level {entry.file.level} has rows that delete others, as "
                    f"before '{DELETION_VECTORS.key}' was 'true': compact the table fully"
                )

    def check_readable(self, entries: Collection[ManifestEntry], schema: TableSchema) -> None:
        """Raises UnsupportedFeature for a file that Iceberg's readers cannot read with this schema."""
        current = iceberg_schema(schema)
        for schema_id in {e.file.schema_id for e in entries}:
            check_readable_as(iceberg_schema(self.schemas.get(schema_id)), current)

    def check_field_ids(self, entries: Sequence[ManifestEntry]) -> None:
        """Raises UnsupportedFeature for a file without field ids, whose columns are found by name."""
        paths, io = self.manifests.paths, self.manifests.io
        for entry in entries:
            path = paths.data_file(entry.partition, entry.bucket, entry.file)
            if path not in _WITH_IDS and not has_field_ids(io, path):
                raise UnsupportedFeature(
                    f"the data file {entry.file.file_name} has no field ids, and a column of the table has the name of "
                    "an earlier one: write its rows again, by a full compaction or an overwrite"
                )
            _WITH_IDS.add(path)

    def added(self, entry: ManifestEntry, draft: Draft) -> Entry:
        """The entry of a file that a snapshot adds."""
        file = entry.file
        return new_entry(
            entry,
            draft,
            {
                "content": 0,
                "file_path": self.location(entry),
                "file_format": "PARQUET",
                "record_count": file.row_count,
                "file_size_in_bytes": file.file_size,
                **_column_statistics(file, self.schemas.get(file.schema_id)),
            },
        )

    def location(self, entry: ManifestEntry) -> str:
        """The location of a data file, which is its identity in Iceberg."""
        paths = self.manifests.paths
        return uri_of(self.manifests.io.absolute(paths.data_file(entry.partition, entry.bucket, entry.file)))


def new_entry(file: ManifestEntry, draft: Draft, data_file: Mapping[str, Any]) -> Entry:
    """The entry of a data file, or of its deletion vector, that a snapshot adds."""
    values = [raw_value(value) for value in decode_partition(file.partition, draft.schema)]
    return {
        "status": ADDED,
        "snapshot_id": draft.id,
        "sequence_number": draft.id,
        "file_sequence_number": draft.id,
        "data_file": {**data_file, "partition": dict(zip(partition_names(draft.schema), values, strict=True))},
    }


def _column_statistics(file: DataFileMeta, schema: TableSchema) -> dict[str, Any]:
    """Counts and bounds by field id, only where they are certain."""
    fields = schema.fields if file.value_stats_cols is None else schema.select(file.value_stats_cols)
    types = [f.type for f in fields]
    values, nulls, lows, highs = [], [], [], []
    for at, column in enumerate(fields):
        if atomic_type(column.type) is None:
            continue
        low, high, null_count = stats_bounds(file.value_stats, types, at)
        if null_count is not None and 0 <= null_count <= file.row_count:
            values.append({"key": column.id, "value": file.row_count})
            nulls.append({"key": column.id, "value": null_count})
        bounds = value_bytes(column.type, low), value_bytes(column.type, high)
        if bounds[0] is not None and bounds[1] is not None:
            lows.append({"key": column.id, "value": bounds[0]})
            highs.append({"key": column.id, "value": bounds[1]})
    return {"value_counts": values, "null_value_counts": nulls, "lower_bounds": lows, "upper_bounds": highs}
