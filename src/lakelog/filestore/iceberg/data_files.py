"""The data files of a snapshot that Iceberg's readers see, and their entries in Iceberg's manifests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat.parquet import has_field_ids
from lakelog.filestore.iceberg.manifests import ADDED, Entry, partition_names, uri_of
from lakelog.filestore.iceberg.schemas import atomic_type, raw_value, value_bytes
from lakelog.filestore.metadata.levels import highest_level
from lakelog.filestore.metadata.manifests import DELETION_VECTORS, IndexManifests, Manifests
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.options.table import FILE_FORMAT
from lakelog.paimon.metadata.column_stats import stats_bounds
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import TableSchema

_UNKNOWN_ROWS: Final = (None, 0)
_WITH_IDS: Final[set[str]] = set()
"""Data files that are known to have field ids; only of tables in which a name is that of two columns."""


@dataclass(frozen=True)
class ExportedFiles:
    """Selection of data files: all of a table without a primary key, else those of the highest level.

    A full compaction writes that level, and its files in a bucket are together a state of the bucket (sheet 7).
    """

    manifests: Manifests
    schemas: Schemas

    def pick(self, entries: Sequence[ManifestEntry], schema: TableSchema) -> list[ManifestEntry]:
        """Those of the entries whose files Iceberg's readers see."""
        if not schema.is_keyed:
            return list(entries)
        lowest, tops = highest_level(schema), dict[tuple[bytes, int], int]()
        for e in entries:  # a bucket with files above the highest level was compacted when there were more levels
            bucket_key = e.partition, e.bucket
            tops[bucket_key] = max(tops.get(bucket_key, lowest), e.file.level)
        return [
            e
            for e in entries
            if e.file.level == tops[e.partition, e.bucket] and e.file.delete_row_count in _UNKNOWN_ROWS
        ]

    def check(self, entries: Sequence[ManifestEntry], snapshot: Snapshot) -> None:
        """Raises UnsupportedFeature if the files alone do not have the rows, or have another format."""
        index = IndexManifests(self.manifests).entries(snapshot)
        if any(entry.index_type == DELETION_VECTORS for entry in index):
            raise UnsupportedFeature(
                f"snapshot {snapshot.id} has deletion vectors, which Iceberg metadata of version 2 cannot name: "
                "compact the table fully after 'deletion-vectors.enabled' = 'false'"
            )
        for entry in entries:
            if not entry.file.file_name.endswith(f".{FILE_FORMAT.default}"):
                raise UnsupportedFeature(
                    f"the data file {entry.file.file_name} is not a Parquet file, and has no field ids for Iceberg's "
                    f"readers: compact the table fully after '{FILE_FORMAT.key}' = '{FILE_FORMAT.default}'"
                )

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

    def added(self, entry: ManifestEntry, snapshot_id: int, schema: TableSchema) -> Entry:
        """The entry of a file that a snapshot adds; ``schema`` names the partition columns."""
        file = entry.file
        values = [raw_value(value) for value in decode_partition(entry.partition, schema)]
        return {
            "status": ADDED,
            "snapshot_id": snapshot_id,
            "sequence_number": snapshot_id,
            "file_sequence_number": snapshot_id,
            "data_file": {
                "content": 0,
                "file_path": self.location(entry),
                "file_format": "PARQUET",
                "partition": dict(zip(partition_names(schema), values, strict=True)),
                "record_count": file.row_count,
                "file_size_in_bytes": file.file_size,
                **_column_statistics(file, self.schemas.get(file.schema_id)),
            },
        }

    def location(self, entry: ManifestEntry) -> str:
        """The location of a data file, which is its identity in Iceberg."""
        paths = self.manifests.paths
        return uri_of(self.manifests.io.absolute(paths.data_file(entry.partition, entry.bucket, entry.file)))


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
