"""Manifest entries: which files a table has, as frozen values and as Avro records (format sheet 4).

Records are plain dicts with the field names of the format. Readers go by name, so files of other writers, with
fewer or more fields, read as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.paimon.metadata.data_file import DataFileMeta, SimpleStats
from lakelog.paimon.metadata.manifest_avro import (
    INDEX_MANIFEST_SCHEMA,
    INDEX_MANIFEST_VERSION,
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    MANIFEST_VERSION,
)

__all__ = [
    "ADD", "DELETE", "INDEX_MANIFEST_SCHEMA", "MANIFEST_LIST_SCHEMA", "MANIFEST_SCHEMA", "DeletionVectorRange",
    "IndexManifestEntry", "ManifestEntry", "ManifestFileMeta", "check_manifest_version", "entry_from_record",
    "entry_to_record", "file_meta_from_record", "file_meta_to_record", "index_entry_from_record",
    "index_entry_to_record", "live_files",
]  # fmt: skip

ADD: Final = 0
DELETE: Final = 1

Record = dict[str, Any]


@dataclass(frozen=True)
class ManifestEntry:
    """One file added to, or deleted from, one bucket. ``partition`` is a serialised BinaryRow."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def identifier(self) -> tuple[object, ...]:
        """Key of a file in the live set; an ADD and a DELETE of one file have the same (sheet 4.2)."""
        file = self.file
        return (
            self.partition, self.bucket, file.level, file.file_name, file.extra_files,
            file.embedded_file_index, file.external_path,
        )  # fmt: skip


@dataclass(frozen=True)
class ManifestFileMeta:
    """One manifest file in a manifest list, with what planning can skip it by."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None


@dataclass(frozen=True)
class DeletionVectorRange:
    """Position of a data file's deletion vector in an index file (sheet 10)."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True)
class IndexManifestEntry:
    """One index file of a bucket: ``HASH`` or ``DELETION_VECTORS`` (sheet 4.4)."""

    kind: int
    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None
    is_global: bool = False
    """True if it is a global index: a reader may leave it aside, a writer does not know how to keep it."""


def live_files(
    entries: Iterable[ManifestEntry], before: Mapping[tuple[object, ...], ManifestEntry] = MappingProxyType({})
) -> dict[tuple[object, ...], ManifestEntry]:
    """Replays entries in order (base list, then delta list) and returns the ADD entries still alive, by identifier.

    ``before`` are those alive before the entries. A DELETE whose ADD is not among them is dropped: it belongs to a file
    that was never seen here.
    """
    live = dict(before)
    for entry in entries:
        if entry.kind == ADD:
            live[entry.identifier] = entry
        else:
            live.pop(entry.identifier, None)
    return live


def entry_to_record(entry: ManifestEntry) -> Record:
    """One record of a manifest file."""
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": _file_to_record(entry.file),
    }


def entry_from_record(record: Mapping[str, Any]) -> ManifestEntry:
    """The reverse of ``entry_to_record``. Raises UnsupportedFeature for another version, Corrupt."""
    check_manifest_version(record.get("_VERSION"))
    try:
        return ManifestEntry(
            record["_KIND"],
            record["_PARTITION"],
            record["_BUCKET"],
            record["_TOTAL_BUCKETS"],
            _file_from_record(record["_FILE"]),
        )
    except KeyError as missing:
        raise Corrupt(f"a manifest entry has no field {missing}") from None


def file_meta_to_record(meta: ManifestFileMeta) -> Record:
    """One record of a manifest list."""
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": _stats_to_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": None,
        "_MAX_ROW_ID": None,
    }


def file_meta_from_record(record: Mapping[str, Any]) -> ManifestFileMeta:
    """The reverse of ``file_meta_to_record``. Raises UnsupportedFeature for another version, Corrupt."""
    _check_version(record, MANIFEST_VERSION, "manifest list")
    try:
        return ManifestFileMeta(
            record["_FILE_NAME"],
            record["_FILE_SIZE"],
            record["_NUM_ADDED_FILES"],
            record["_NUM_DELETED_FILES"],
            _stats_from_record(record["_PARTITION_STATS"]),
            record["_SCHEMA_ID"],
            record.get("_MIN_BUCKET"),
            record.get("_MAX_BUCKET"),
            record.get("_MIN_LEVEL"),
            record.get("_MAX_LEVEL"),
        )
    except KeyError as missing:
        raise Corrupt(f"a manifest list entry has no field {missing}") from None


def index_entry_to_record(entry: IndexManifestEntry) -> Record:
    """One record of an index manifest. Raises UnsupportedFeature for a global index."""
    if entry.is_global:
        raise UnsupportedFeature(
            f"index file '{entry.file_name}' is a global index, which lakelog does not write: drop the index, or write "
            f"this table with another engine"
        )
    ranges = None
    if entry.deletion_vectors is not None:
        ranges = [
            {"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality}
            for r in entry.deletion_vectors
        ]
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges,
        "_EXTERNAL_PATH": entry.external_path,
        "_GLOBAL_INDEX": None,
    }


def index_entry_from_record(record: Mapping[str, Any]) -> IndexManifestEntry:
    """The reverse of ``index_entry_to_record``. Raises UnsupportedFeature for another version, Corrupt."""
    _check_version(record, INDEX_MANIFEST_VERSION, "index manifest")
    try:
        ranges = record.get("_DELETIONS_VECTORS_RANGES")
        return IndexManifestEntry(
            record["_KIND"],
            record["_PARTITION"],
            record["_BUCKET"],
            record["_INDEX_TYPE"],
            record["_FILE_NAME"],
            record["_FILE_SIZE"],
            record["_ROW_COUNT"],
            None
            if ranges is None
            else tuple(DeletionVectorRange(r["f0"], r["f1"], r["f2"], r.get("_CARDINALITY")) for r in ranges if r),
            record.get("_EXTERNAL_PATH"),
            record.get("_GLOBAL_INDEX") is not None,
        )
    except KeyError as missing:
        raise Corrupt(f"an index manifest entry has no field {missing}") from None


def check_manifest_version(version: object) -> None:
    """Raises UnsupportedFeature for a ``_VERSION`` of manifest entries that is not known."""
    _check_version({"_VERSION": version}, MANIFEST_VERSION, "manifest")


def _check_version(record: Mapping[str, Any], version: int, what: str) -> None:
    if record.get("_VERSION") != version:
        raise UnsupportedFeature(
            f"{what} entry of version {record.get('_VERSION')}: lakelog reads version {version}; it was written by an "
            f"older or newer writer"
        )


def _stats_to_record(stats: SimpleStats) -> Record:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def _stats_from_record(record: Mapping[str, Any]) -> SimpleStats:
    return SimpleStats(record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(record.get("_NULL_COUNTS") or ()))


def _file_to_record(file: DataFileMeta) -> Record:
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_to_record(file.key_stats),
        "_VALUE_STATS": _stats_to_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time_ms,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
        "_FILE_SOURCE": file.file_source,
        "_VALUE_STATS_COLS": _optional_list(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": _optional_list(file.write_cols),
    }


def _file_from_record(record: Mapping[str, Any]) -> DataFileMeta:
    return DataFileMeta(
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        min_key=record["_MIN_KEY"],
        max_key=record["_MAX_KEY"],
        key_stats=_stats_from_record(record["_KEY_STATS"]),
        value_stats=_stats_from_record(record["_VALUE_STATS"]),
        min_sequence_number=record["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=record["_MAX_SEQUENCE_NUMBER"],
        schema_id=record["_SCHEMA_ID"],
        level=record["_LEVEL"],
        extra_files=tuple(record["_EXTRA_FILES"]),
        creation_time_ms=record.get("_CREATION_TIME"),
        delete_row_count=record.get("_DELETE_ROW_COUNT"),
        embedded_file_index=record.get("_EMBEDDED_FILE_INDEX"),
        file_source=record.get("_FILE_SOURCE"),
        value_stats_cols=_optional_tuple(record.get("_VALUE_STATS_COLS")),
        external_path=record.get("_EXTERNAL_PATH"),
        first_row_id=record.get("_FIRST_ROW_ID"),
        write_cols=_optional_tuple(record.get("_WRITE_COLS")),
    )


def _optional_list(values: tuple[str, ...] | None) -> list[str] | None:
    return None if values is None else list(values)


def _optional_tuple(values: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
