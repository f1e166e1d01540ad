"""Conflict detection of a commit against the newest snapshot (format sheet 2.1, step 3). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from lakelog.errors import CommitConflict
from lakelog.filestore.commit.request import IndexChange
from lakelog.filestore.metadata.levels import KeyRange
from lakelog.filestore.metadata.manifests import DELETION_VECTORS
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, DELETE, IndexManifestEntry, ManifestEntry
from lakelog.paimon.metadata.snapshot import OVERWRITE
from lakelog.paimon.schema.schema import TableSchema


def entries_of(files: Iterable[BucketFiles]) -> list[ManifestEntry]:
    """The manifest entries of a commit: deletes before adds."""
    held = list(files)
    deleted = [ManifestEntry(DELETE, b.partition, b.bucket, b.total_buckets, f) for b in held for f in b.deleted_files]
    added = [ManifestEntry(ADD, b.partition, b.bucket, b.total_buckets, f) for b in held for f in b.new_files]
    return [*deleted, *added]


def changelog_of(files: Iterable[BucketFiles]) -> list[ManifestEntry]:
    """The manifest entries of a commit's changelog files."""
    return [ManifestEntry(ADD, b.partition, b.bucket, b.total_buckets, f) for b in files for f in b.changelog_files]


def check_vectors(live: Sequence[ManifestEntry], changes: Sequence[ManifestEntry], index: IndexChange) -> None:
    """Raises CommitConflict if a deletion vector of the commit refers to a data file that would not be live."""
    named = [(e, r.data_file) for e in index.added for r in e.deletion_vectors or ()]
    if not named:
        return
    alive = {_file(e) for e in live} | {_file(e) for e in changes if e.kind == ADD}
    alive -= {_file(e) for e in changes if e.kind == DELETE}
    for entry, data_file in named:
        if (entry.partition, entry.bucket, data_file) not in alive:
            raise CommitConflict(
                f"data file '{data_file}' of bucket {entry.bucket} was replaced by another commit while its rows "
                "were deleted: retry on the newest snapshot"
            )


def check_kept(kept: Collection[str], live: Iterable[ManifestEntry], index: Iterable[IndexManifestEntry]) -> None:
    """Raises CommitConflict if a file that a commit keeps is no longer live."""
    missing = set(kept) - {e.file.file_name for e in live} - {e.file_name for e in index}
    if missing:
        raise CommitConflict(f"file '{min(missing)}' was replaced by another commit: retry on the newest snapshot")


def check_seen(before: Iterable[IndexManifestEntry], index: IndexChange) -> None:
    """Raises CommitConflict if a compacted bucket has other deletion vectors than the compaction has read.

    Concurrently deleted rows would reappear. ``before`` are the index files of the newest snapshot.
    """
    now: dict[tuple[bytes, int], set[str]] = defaultdict(set)
    for entry in before:
        if entry.index_type == DELETION_VECTORS:
            now[entry.partition, entry.bucket].add(entry.file_name)
    for seen in index.seen:
        if now[seen.partition, seen.bucket] != seen.file_names:
            raise CommitConflict(
                f"another commit deleted rows of bucket {seen.bucket} while it was compacted: run one compactor per "
                "bucket, and compact again"
            )


def check_conflicts(
    live: Sequence[ManifestEntry], changes: Sequence[ManifestEntry], kind: str, schema: TableSchema
) -> None:
    """Raises CommitConflict if the changes conflict with the live files of their partitions.

    A commit must not add and delete the same file. Every deleted file must be live. The number of buckets of a
    partition must not change (unless the commit overwrites). Files of one level ≥ 1 of a bucket must not overlap.
    """
    alive = {e.identifier: e for e in live}
    added = {e.identifier for e in changes if e.kind == ADD}
    for entry in changes:
        if entry.kind == DELETE and entry.identifier in added:
            raise CommitConflict(f"data file '{entry.file.file_name}' is both added and deleted")
        if entry.kind == DELETE and alive.pop(entry.identifier, None) is None:
            raise CommitConflict(
                f"data file '{entry.file.file_name}' of bucket {entry.bucket} was replaced by another commit: retry "
                "on the newest snapshot"
            )
    kept = list(alive.values())
    if kind != OVERWRITE:
        _check_buckets(kept, changes)
    if schema.is_keyed:
        _check_levels(kept, changes, schema)


def _check_buckets(live: Sequence[ManifestEntry], changes: Sequence[ManifestEntry]) -> None:
    totals = {e.partition: e.total_buckets for e in live}
    for entry in changes:
        total = totals.get(entry.partition, entry.total_buckets)
        if total != entry.total_buckets:
            raise CommitConflict(
                f"the partition has {total} buckets and the commit was prepared for {entry.total_buckets}: open the "
                "table again; if 'bucket' was changed, overwrite the partition first"
            )


def _check_levels(live: Sequence[ManifestEntry], changes: Sequence[ManifestEntry], schema: TableSchema) -> None:
    touched = {_level(e) for e in changes if e.kind == ADD and e.file.level > 0}
    by_level: dict[tuple[bytes, int, int], list[DataFileMeta]] = defaultdict(list)
    for entry in (*live, *(e for e in changes if e.kind == ADD)):
        if _level(entry) in touched:
            by_level[_level(entry)].append(entry.file)
    keys = KeyRange.of(schema)
    for (_, bucket, level), files in by_level.items():
        ordered = sorted(files, key=keys.low)
        for one, other in zip(ordered, ordered[1:], strict=False):
            if keys.high(one) >= keys.low(other):
                raise CommitConflict(
                    f"files '{one.file_name}' and '{other.file_name}' of bucket {bucket} overlap on level {level}: "
                    "another compaction committed first; run one compactor per bucket"
                )


def _file(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name


def _level(entry: ManifestEntry) -> tuple[bytes, int, int]:
    return entry.partition, entry.bucket, entry.file.level
