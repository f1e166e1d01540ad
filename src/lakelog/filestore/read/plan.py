"""Plans a batch read: the files of a snapshot, pruned, as splits (format sheet 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.filestore.metadata.levels import KeyRange, Section, has_deletes, has_only_deleted_keys, sections
from lakelog.filestore.read.deletion_vectors import DeletionVectorRef
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.merge.table_rules import engine_class
from lakelog.options.notebook import NotebookView
from lakelog.options.option import Options
from lakelog.options.table import DELETION_VECTORS, MERGE_ON_READ
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.schema.schema import POSTPONE_BUCKET, TableSchema

_SPLIT_BYTES: Final = 128 << 20
"""Neighbouring files of one bucket are read in one split up to this size."""

BucketKey = tuple[bytes, int]
"""(serialised partition row, bucket)."""


@dataclass(frozen=True, repr=False)
class Split(NotebookView):
    """A part of a batch read for one task: files of one bucket, and rows that are in no file yet.

    Without ``needs_merge`` the result is all rows of the files, except those that ``vectors`` delete. ``inline_runs``
    are Arrow IPC streams of rows (all table columns, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``) newer than all files.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    needs_merge: bool
    snapshot_id: int | None = None
    inline_runs: tuple[bytes, ...] = ()
    vectors: tuple[DeletionVectorRef, ...] = ()
    """Deletion vectors of the files that have one."""

    def __repr__(self) -> str:
        merged = ", to be merged" if self.needs_merge else ""
        inline = f", {len(self.inline_runs)} runs in no file yet" if self.inline_runs else ""
        return f"Split(bucket {self.bucket}: {len(self.files)} files, {self.row_count} rows{inline}{merged})"

    def notebook_facts(self) -> Mapping[str, object]:
        return {
            "bucket": self.bucket,
            "files": len(self.files),
            "rows": self.row_count,
            "bytes": self.file_size,
            "runs in no file yet": len(self.inline_runs) or None,
            "deletion vectors": len(self.vectors) or None,
            "merge": self.needs_merge,
        }

    @property
    def row_count(self) -> int:
        """Rows in the files, before any merge."""
        return sum(f.row_count for f in self.files)

    @property
    def exact_rows(self) -> int | None:
        """Rows of the result, from metadata; None if only a read can count them."""
        deleted = [vector.cardinality for vector in self.vectors]
        if self.needs_merge or self.inline_runs or None in deleted:
            return None
        return self.row_count - sum(count for count in deleted if count is not None)

    @property
    def file_size(self) -> int:
        """Bytes of the files."""
        return sum(f.file_size for f in self.files)


def skips_level_zero(schema: TableSchema) -> bool:
    """Returns whether a batch read skips level-0 files until a compaction makes them visible (format sheet 7)."""
    options = Options(schema.options)
    if not schema.is_keyed or options.need(MERGE_ON_READ):
        return False
    return engine_class(options).oldest_wins or options.need(DELETION_VECTORS)


def plan_splits(
    entries: Iterable[ManifestEntry],
    schema: TableSchema,
    pruning: Pruning,
    snapshot_id: int | None,
    vectors: Mapping[BucketKey, tuple[DeletionVectorRef, ...]] | None = None,
) -> dict[BucketKey, list[Split]]:
    """The splits of live files per (partition, bucket); splits of keyed tables are in key order with disjoint keys.

    Pure. Skips files in the ``bucket-postpone`` directory, which are not visible yet, and files of level 0 if
    ``skips_level_zero``. ``vectors`` are the deletion vectors of the snapshot.
    """
    keys, skips = KeyRange.of(schema), skips_level_zero(schema)
    lowest = 1 if skips else 0
    by_bucket: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    for entry in entries:
        if entry.bucket != POSTPONE_BUCKET and entry.file.level >= lowest:
            by_bucket.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
    out: dict[BucketKey, list[Split]] = {}
    for (partition, bucket, total), files in sorted(by_bucket.items()):
        empty = Split(partition, bucket, total, (), False, snapshot_id)
        tests = pruning.within((partition, bucket))
        splits = _keyed(files, keys, skips, tests, empty) if schema.is_keyed else _appended(files, tests, empty)
        refs = (vectors or {}).get((partition, bucket), ())
        out.setdefault((partition, bucket), []).extend(_with_vectors(split, refs) for split in splits)
    return out


def _with_vectors(split: Split, vectors: Sequence[DeletionVectorRef]) -> Split:
    names = {f.file_name for f in split.files}
    return replace(split, vectors=tuple(v for v in vectors if v.data_file in names)) if vectors else split


def _keyed(files: Sequence[DataFileMeta], keys: KeyRange, skips: bool, pruning: Pruning, empty: Split) -> list[Split]:
    if skips:
        # the vectors, or compactions of first rows, leave one row per key in all levels above 0
        rows = [f for f in files if not has_only_deleted_keys(f)]
        if not any(has_deletes(f) for f in rows):
            return _appended(rows, pruning, empty)
    groups: list[_Group] = []
    for section in sections(files, keys):
        kept, needs_merge = _section_files(section, keys, pruning)
        if not kept:
            continue
        size = sum(f.file_size for f in kept)
        last = groups[-1] if groups else None
        if last is not None and last.needs_merge == needs_merge and last.size + size <= _SPLIT_BYTES:
            last.files.extend(kept)
            last.size += size
        else:
            groups.append(_Group(list(kept), size, needs_merge))
    return [replace(empty, files=tuple(g.files), needs_merge=g.needs_merge) for g in groups]


@dataclass
class _Group:
    """The files of a split under construction."""

    files: list[DataFileMeta]
    size: int
    needs_merge: bool = False


def _section_files(section: Section, keys: KeyRange, pruning: Pruning) -> tuple[tuple[DataFileMeta, ...], bool]:
    if len(section.files) == 1:
        (file,) = section.files
        return (section.files, has_deletes(file)) if pruning.may_have_rows(file) else ((), False)
    if len(section.runs(keys)) > 1:
        return section.files, True
    kept = tuple(f for f in section.files if pruning.may_have_rows(f))
    return kept, any(has_deletes(f) for f in kept)


def _appended(files: Sequence[DataFileMeta], pruning: Pruning, empty: Split) -> list[Split]:
    groups: list[_Group] = []
    for file in sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time_ms or 0, f.file_name)):
        if not pruning.may_have_rows(file):
            continue
        if groups and groups[-1].size + file.file_size <= _SPLIT_BYTES:
            groups[-1].files.append(file)
            groups[-1].size += file.file_size
        else:
            groups.append(_Group([file], file.file_size))
    return [replace(empty, files=tuple(g.files)) for g in groups]


def flat(splits: Mapping[BucketKey, Sequence[Split]]) -> list[Split]:
    """All splits, by partition and bucket."""
    return [split for key in sorted(splits) for split in splits[key]]
