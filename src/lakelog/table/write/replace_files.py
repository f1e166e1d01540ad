"""Replaces data files of a table without a primary key with the remaining rows of UPDATE, DELETE or MERGE.

One snapshot adds the new files and removes the old ones, or nothing changes. If another commit, such as a compaction,
has replaced one of the files, the commit conflicts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from lakelog.errors import CommitConflict, UnsupportedFeature
from lakelog.filestore.commit.request import CommitRequest, IndexChange
from lakelog.filestore.compaction.bucket_vectors import BucketVectors
from lakelog.filestore.compaction.planner import CompactionResult, joined_index
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.io.clock import now_ms
from lakelog.options.overwrite import OVERWRITE_SAME_ROWS
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import COMPACT, OVERWRITE, Snapshot
from lakelog.table.commit.file_commit import level0_files_of
from lakelog.table.commit.replacement import commit_replacement
from lakelog.table.commit.seal import seal_decided
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_generation import carried_properties
from lakelog.table.model.row_counts import RowCounts, WrittenRows
from lakelog.table.read.file_scan import Scan
from lakelog.table.write.replaced_rows import check_overwrite


def files_to_rewrite(table: DynamicTable, condition: Predicate | None = None) -> list[str]:
    """The data files of the newest snapshot that may have rows matching a condition; seals decided epochs first.

    Raises UnsupportedFeature for a table with a primary key, or with a log that the write would not fill.
    """
    if table.schema.is_keyed:
        raise UnsupportedFeature(f"table {table.name} has a primary key: change its rows by writing them again")
    check_overwrite(table)
    seal_decided(table)
    return [file.file_name for split in Scan(table, filter=condition).plan() for file in split.files]


def commit_rewrite(
    table: DynamicTable, writer: str, results: Sequence[AttemptResult], replaced: Collection[str]
) -> RowCounts:
    """Replaces data files with the rows of the accepted attempts; returns the number of changed rows.

    1 find the files in the newest snapshot · 2 write the small runs of the attempts, and the remaining deletion vectors
    · 3 commit; of kind COMPACT if the rows stay the same. Raises CommitConflict if one of the files is missing (nothing
    has changed then), CommitUnknown.
    """
    # 1
    latest = table.store.latest_snapshot()
    names = set(replaced)
    entries = [e for e in table.store.live_entries(latest) if e.file.file_name in names]
    if missing := names - {e.file.file_name for e in entries}:
        raise CommitConflict(
            f"data file '{min(missing)}' of table {table.name} was replaced by another commit. Try again"
        )
    if any(e.file.schema_id > table.schema.id for e in entries):
        raise CommitConflict(
            f"table {table.name} was altered since it was opened, and has rows with the new columns. Try again"
        )
    # 2
    ready = level0_files_of(table, [EpochRecord(writer, 0, now_ms(), tuple(results))], latest)
    written = WrittenRows.of(results)
    if not entries and not any(b.new_files for b in ready.made.files):
        return written.in_place_of(0)
    deleted = _by_bucket(entries)
    vectors = _Vectors(ready.table, latest, deleted)
    counts = written.in_place_of(sum(e.file.row_count for e in entries) - vectors.deleted)
    index = vectors.without
    # 3
    request = CommitRequest(
        writer,
        0,
        COMPACT if table.options.need(OVERWRITE_SAME_ROWS) else OVERWRITE,
        (*ready.made.files, *deleted),
        prepare=lambda now: carried_properties(table, now),
        first_try=True,
        index=index,
    )
    try:
        commit_replacement(table, request)
    except CommitConflict:
        ready.made.delete(ready.table)
        raise
    return counts


def _by_bucket(entries: Sequence[ManifestEntry]) -> list[BucketFiles]:
    files_of: dict[tuple[bytes, int, int], list[DataFileMeta]] = defaultdict(list)
    for entry in entries:
        files_of[entry.partition, entry.bucket, entry.total_buckets].append(entry.file)
    return [BucketFiles(*bucket_key, deleted_files=tuple(files)) for bucket_key, files in files_of.items()]


class _Vectors:
    """The deletion vectors in buckets from which files are removed."""

    def __init__(self, table: DynamicTable, latest: Snapshot | None, deleted: Sequence[BucketFiles]) -> None:
        vector_files = table.store.vector_files(latest)
        self._of = [
            (files, BucketVectors(table.io, table.store.paths, files.partition, files.bucket, entries))
            for files in deleted
            if (entries := vector_files.get((files.partition, files.bucket), []))
        ]

    @property
    def deleted(self) -> int:
        """Rows of the removed files that had been deleted before."""
        positions_of = (vectors.deleted(f.file_name for f in files.deleted_files) for files, vectors in self._of)
        return sum(len(positions) for bucket in positions_of for positions in bucket.values())

    @property
    def without(self) -> IndexChange:
        """The vectors without those of removed files."""
        changes = [
            CompactionResult(files, vectors.change(f.file_name for f in files.deleted_files))
            for files, vectors in self._of
        ]
        return joined_index(changes)
