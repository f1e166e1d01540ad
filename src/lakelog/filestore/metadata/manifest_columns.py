"""The entries of a manifest as columns, filtered by bucket before entry objects are built (sheet 4.2).

A manifest of the format contains up to some hundred thousand entries, of which a plan for one key needs a few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from lakelog.errors import Corrupt
from lakelog.fileformat.avro_columns import CHUNK_BYTES, Columns, read_columns
from lakelog.paimon.metadata.column_stats import merge_bounds
from lakelog.paimon.metadata.data_file import DataFileMeta, SimpleStats
from lakelog.paimon.metadata.manifest import DELETE, ManifestEntry, ManifestFileMeta, check_manifest_version
from lakelog.paimon.rows.partition import decode_partition, partition_types
from lakelog.paimon.schema.schema import TableSchema

BucketTest = Callable[[bytes, int, int], bool]
"""(serialised partition row, bucket, total buckets) → True if its files are needed."""

_FEW: Final = 64
"""Maximum entries of a part that is kept as objects: a small commit's manifest is read several times a commit."""
_ENTRY_BYTES: Final = 3000
"""Approximate memory of one entry as objects."""

_PLACE: Final = ("_PARTITION", "_BUCKET", "_TOTAL_BUCKETS")
_REQUIRED: Final = ("_KIND", *_PLACE)
_FILE_REQUIRED: Final = (
    "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT", "_MIN_KEY", "_MAX_KEY", "_KEY_STATS._MIN_VALUES",
    "_KEY_STATS._MAX_VALUES", "_VALUE_STATS._MIN_VALUES", "_VALUE_STATS._MAX_VALUES", "_MIN_SEQUENCE_NUMBER",
    "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID", "_LEVEL", "_EXTRA_FILES",
)  # fmt: skip
_FILE_OPTIONAL: Final = (
    "_KEY_STATS._NULL_COUNTS", "_VALUE_STATS._NULL_COUNTS", "_CREATION_TIME", "_DELETE_ROW_COUNT",
    "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE", "_VALUE_STATS_COLS", "_EXTERNAL_PATH", "_FIRST_ROW_ID", "_WRITE_COLS",
)  # fmt: skip
_PATHS: Final = ("_VERSION", *_REQUIRED, *(f"_FILE.{name}" for name in (*_FILE_REQUIRED, *_FILE_OPTIONAL)))


@dataclass(frozen=True)
class FewEntries:
    """A part of a manifest with few entries, as objects."""

    held: tuple[ManifestEntry, ...]

    @cached_property
    def places(self) -> frozenset[tuple[bytes, int, int]]:
        """(partition, bucket, total buckets) of all entries."""
        return frozenset((e.partition, e.bucket, e.total_buckets) for e in self.held)

    @property
    def levels(self) -> tuple[int, int]:
        """The lowest and the highest level."""
        levels = [e.file.level for e in self.held]
        return min(levels), max(levels)

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.held)

    @property
    def nbytes(self) -> int:
        """Approximate size in memory in bytes."""
        return _ENTRY_BYTES * self.count

    def entries(self, in_bucket: BucketTest | None = None) -> Sequence[ManifestEntry]:
        """As ``EntryColumns.entries``."""
        if in_bucket is None:
            return self.held
        places = {place for place in self.places if in_bucket(*place)}
        if len(places) == len(self.places):
            return self.held
        return [e for e in self.held if (e.partition, e.bucket, e.total_buckets) in places]

    def at(self, rows: np.ndarray) -> Sequence[ManifestEntry]:
        """The entries of some row numbers."""
        return [self.held[row] for row in rows]

    def deleted_names(self) -> list[str]:
        """The names of the files in DELETE entries."""
        return [e.file.file_name for e in self.held if e.kind == DELETE]

    def is_named(self, names: Sequence[str]) -> np.ndarray:
        """A mask of the entries whose file has one of these names."""
        return np.isin([e.file.file_name for e in self.held], names)


@dataclass(frozen=True)
class EntryColumns:
    """A part of a manifest: a frame of its columns, and the row numbers of each (partition, bucket, total buckets)."""

    frame: pl.DataFrame
    buckets: tuple[tuple[tuple[bytes, int, int], np.ndarray], ...]

    @property
    def count(self) -> int:
        """Number of entries."""
        return self.frame.height

    @property
    def nbytes(self) -> int:
        """Approximate size in memory in bytes."""
        size = int(self.frame.estimated_size())
        return size + sum(rows.nbytes + len(bucket_key[0]) + 300 for bucket_key, rows in self.buckets)

    @property
    def places(self) -> frozenset[tuple[bytes, int, int]]:
        """(partition, bucket, total buckets) of all entries."""
        return frozenset(place for place, _ in self.buckets)

    @property
    def levels(self) -> tuple[int, int]:
        """The lowest and the highest level."""
        levels: Any = self.frame.get_column("_FILE._LEVEL")
        return levels.min(), levels.max()

    def entries(self, in_bucket: BucketTest | None = None) -> Sequence[ManifestEntry]:
        """The entries in manifest order; with ``in_bucket`` only those of the accepted buckets."""
        if in_bucket is None:
            return self.at(None)
        places = [rows for bucket_key, rows in self.buckets if in_bucket(*bucket_key)]
        if len(places) == len(self.buckets):
            return self.at(None)
        return self.at(np.sort(np.concatenate(places))) if places else []

    def deleted_names(self) -> list[str]:
        """The names of the files in DELETE entries."""
        return self.frame["_FILE._FILE_NAME"].filter(self.frame["_KIND"] == DELETE).to_list()

    def is_named(self, names: Sequence[str]) -> np.ndarray:
        """A mask of the entries whose file has one of these names."""
        return self.frame["_FILE._FILE_NAME"].is_in(names).to_numpy()

    def at(self, rows: np.ndarray | None) -> Sequence[ManifestEntry]:
        """The entries of some row numbers (None: all)."""
        taken = self.frame if rows is None else self.frame[rows]
        known = frozenset(taken.columns)

        def values(name: str) -> list[Any]:
            return taken.get_column(name).to_list() if name in known else [None] * taken.height

        def stats(name: str) -> Iterable[SimpleStats]:
            nulls = (tuple(v) if v else () for v in values(f"_FILE.{name}._NULL_COUNTS"))
            return map(SimpleStats, values(f"_FILE.{name}._MIN_VALUES"), values(f"_FILE.{name}._MAX_VALUES"), nulls)

        def names(name: str) -> Iterable[tuple[str, ...] | None]:
            return (None if v is None else tuple(v) for v in values(name))

        files = map(
            DataFileMeta,
            *(values(f"_FILE.{name}") for name in _FILE_REQUIRED[:5]),
            stats("_KEY_STATS"),
            stats("_VALUE_STATS"),
            *(values(f"_FILE.{name}") for name in _FILE_REQUIRED[9:13]),
            map(tuple, values("_FILE._EXTRA_FILES")),
            *(values(f"_FILE.{name}") for name in _FILE_OPTIONAL[2:6]),
            names("_FILE._VALUE_STATS_COLS"),
            values("_FILE._EXTERNAL_PATH"),
            values("_FILE._FIRST_ROW_ID"),
            names("_FILE._WRITE_COLS"),
        )
        return list(map(ManifestEntry, *(values(name) for name in _REQUIRED), files))


Part = EntryColumns | FewEntries


def decode_manifest(data: bytes, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Part]:
    """The parts of a manifest file, in order; each takes about ``chunk_bytes``. Raises UnsupportedFeature, Corrupt."""
    for columns in read_columns(data, _PATHS, chunk_bytes):
        part = _entry_columns(columns)
        yield FewEntries(tuple(part.entries())) if part.count <= _FEW else part


def written_parts(entries: Sequence[ManifestEntry], data: bytes, has_blocks: bool) -> tuple[Part, ...]:
    """The parts of a manifest that was written as ``data``, with blocks of others before the entries or without."""
    return tuple(decode_manifest(data)) if has_blocks or len(entries) > _FEW else (FewEntries(tuple(entries)),)


def manifest_meta(name: str, size: int, parts: Sequence[Part], schema: TableSchema) -> ManifestFileMeta:
    """The manifest-list entry of a manifest of ``size`` bytes with these parts (at least one)."""
    places = {place for part in parts for place in part.places}
    partitions = [decode_partition(p, schema) for p in {partition for partition, _, _ in places}]
    deleted = sum(len(part.deleted_names()) for part in parts)
    levels = [level for part in parts for level in part.levels]
    return ManifestFileMeta(
        name,
        size,
        sum(part.count for part in parts) - deleted,
        deleted,
        merge_bounds(partitions, partition_types(schema)),
        schema.id,
        min(bucket for _, bucket, _ in places),
        max(bucket for _, bucket, _ in places),
        min(levels),
        max(levels),
    )


def _entry_columns(columns: Columns) -> EntryColumns:
    versions = columns.get("_VERSION")
    for version in (None,) if versions is None or versions.null_count() else (versions.min(), versions.max()):
        check_manifest_version(version)
    for name in (*_REQUIRED, *(f"_FILE.{name}" for name in _FILE_REQUIRED)):
        if name not in columns or columns[name].null_count():
            raise Corrupt(f"a manifest entry has no field '{name.rpartition('.')[2]}'")
    kept = {name: column for name, column in columns.items() if name != "_VERSION" and not _is_empty(column)}
    frame = pl.DataFrame(kept)
    return EntryColumns(frame, () if frame.height <= _FEW else _buckets(frame))


def _buckets(frame: pl.DataFrame) -> tuple[tuple[tuple[bytes, int, int], np.ndarray], ...]:
    """The row numbers of each (partition, bucket, total buckets), in the order of their first rows."""
    grouped = (
        frame.select(*_PLACE, pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
        .group_by(_PLACE, maintain_order=True)
        .agg("row")
    )
    return tuple(
        ((partition, bucket, total), rows.to_numpy())
        for partition, bucket, total, rows in zip(*(grouped.get_column(n) for n in (*_PLACE, "row")), strict=True)
    )


def _is_empty(column: pl.Series) -> bool:
    return column.null_count() == len(column)
