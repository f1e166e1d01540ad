"""Plans a batch read: the files of a snapshot, pruned, as splits (format sheet 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.filestore.levels import KeyRange, Section, has_deletes, sections
from lakelog.filestore.pruning import Pruning
from lakelog.spec.data_file import DataFileMeta
from lakelog.spec.manifest import ManifestEntry
from lakelog.spec.schema import POSTPONE_BUCKET, TableSchema

_SPLIT_BYTES: Final = 128 << 20
"""Neighbouring files of one bucket are read in one split up to this size."""

Place = tuple[bytes, int]
"""(serialised partition row, bucket)."""


@dataclass(frozen=True)
class Split:
    """A part of a batch read that one task does: files of one bucket, and rows that are in no file yet.

    ``needs_merge`` false: the rows of the files are the result as they are (any reader of their format may read them).
    ``inline_runs`` are Arrow IPC streams of rows (all table columns, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``) newer than
    all files.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    needs_merge: bool
    snapshot_id: int | None = None
    inline_runs: tuple[bytes, ...] = ()

    @property
    def row_count(self) -> int:
        """Rows in the files, before any merge."""
        return sum(f.row_count for f in self.files)

    @property
    def file_size(self) -> int:
        """Bytes of the files."""
        return sum(f.file_size for f in self.files)


def plan_splits(
    entries: Iterable[ManifestEntry], schema: TableSchema, pruning: Pruning, snapshot_id: int | None
) -> dict[Place, list[Split]]:
    """The splits of live files per (partition, bucket), those of keyed tables in key order and without common keys.

    Pure. Files in the ``bucket-postpone`` directory are not visible yet and left out.
    """
    places: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    for entry in entries:
        if entry.bucket != POSTPONE_BUCKET:
            places.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
    out: dict[Place, list[Split]] = {}
    for (partition, bucket, total), files in sorted(places.items()):
        empty = Split(partition, bucket, total, (), False, snapshot_id)
        made = _keyed(files, schema, pruning, empty) if schema.is_keyed else _appended(files, pruning, empty)
        out.setdefault((partition, bucket), []).extend(made)
    return out


def _keyed(files: Sequence[DataFileMeta], schema: TableSchema, pruning: Pruning, empty: Split) -> list[Split]:
    keys = KeyRange.of(schema)
    splits: list[Split] = []
    for section in sections(files, keys):
        kept, needs_merge = _section_files(section, keys, pruning)
        if not kept:
            continue
        last = splits[-1] if splits else None
        size = sum(f.file_size for f in kept)
        if last is not None and last.needs_merge == needs_merge and last.file_size + size <= _SPLIT_BYTES:
            splits[-1] = replace(last, files=(*last.files, *kept))
        else:
            splits.append(replace(empty, files=kept, needs_merge=needs_merge))
    return splits


def _section_files(section: Section, keys: KeyRange, pruning: Pruning) -> tuple[tuple[DataFileMeta, ...], bool]:
    runs = section.runs(keys)
    if len(runs) > 1:
        return section.files, True
    kept = tuple(f for f in section.files if pruning.may_have_rows(f))
    return kept, any(has_deletes(f) for f in kept)


def _appended(files: Sequence[DataFileMeta], pruning: Pruning, empty: Split) -> list[Split]:
    splits: list[Split] = []
    for file in sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time_ms or 0, f.file_name)):
        if not pruning.may_have_rows(file):
            continue
        if splits and splits[-1].file_size + file.file_size <= _SPLIT_BYTES:
            splits[-1] = replace(splits[-1], files=(*splits[-1].files, file))
        else:
            splits.append(replace(empty, files=(file,)))
    return splits


def flat(splits: Mapping[Place, Sequence[Split]]) -> list[Split]:
    """All splits, by partition and bucket."""
    return [split for place in sorted(splits) for split in splits[place]]
