"""One data file as the manifests describe it (format sheet 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

APPEND_SOURCE = 0
COMPACT_SOURCE = 1


@dataclass(frozen=True)
class SimpleStats:
    """Minimum, maximum and null count per column; ``min_values``/``max_values`` are serialised BinaryRows."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] = ()


EMPTY_ROW = b"\x00" * 12
EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


@dataclass(frozen=True)
class DataFileMeta:
    """A data file: name, key range, statistics, level; all that planning needs to know."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    schema_id: int = 0
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    delete_row_count: int | None = None
    embedded_file_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    def at_level(self, level: int) -> DataFileMeta:
        """The same file at another level (an upgrade without a rewrite)."""
        return replace(self, level=level)


@dataclass(frozen=True)
class BucketFiles:
    """Files that one writer or compactor made (and replaced) in one bucket.

    ``partition`` is the serialised BinaryRow of the partition (12 zero bytes when not partitioned).
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = field(default=())
