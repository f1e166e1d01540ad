"""Selects the files to compact in one bucket (format sheet 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakelog.filestore.commit.request import IndexChange
from lakelog.filestore.compaction.record_expiry import RecordExpiry
from lakelog.filestore.compaction.strategy import (
    is_small,
    lookup_interval,
    pick_level_zero,
    pick_runs,
    pick_small_files,
)
from lakelog.filestore.metadata.levels import KeyRange, SortedRun, has_deletes, highest_level, is_apart, sorted_runs
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.write.data_file_writer import target_file_size
from lakelog.io import clock
from lakelog.merge.table_rules import needs_lookup
from lakelog.options.option import Options
from lakelog.options.picking import DELETE_RATIO, FORCE_REWRITE, FORCE_UP_LEVEL_ZERO
from lakelog.options.table import COMPACTION_MIN_FILES, DELETION_VECTORS
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.paimon.metadata.manifest import IndexManifestEntry, ManifestEntry
from lakelog.paimon.schema.schema import DYNAMIC_BUCKET, TableSchema


@dataclass(frozen=True)
class CompactionTask:
    """Files of one bucket to merge, and the output level.

    ``drop_deletes`` is True if no older rows remain, or deletion vectors hide them, so delete rows are obsolete.
    ``reaches_top_level`` is True if the output level is the table's highest. ``upper_files`` are the unchanged files on
    levels above the output, in which the merge looks up replaced rows. ``vector_files`` are the index files with the
    bucket's deletion vectors. With ``purges_deletes``, files with a vector are rewritten without the deleted rows.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    output_level: int
    drop_deletes: bool
    reaches_top_level: bool = False
    upper_files: tuple[DataFileMeta, ...] = ()
    vector_files: tuple[IndexManifestEntry, ...] = ()
    purges_deletes: bool = False


def pick_compaction(
    entries: Sequence[ManifestEntry],
    schema: TableSchema,
    full: bool = False,
    vector_files: Sequence[IndexManifestEntry] = (),
) -> CompactionTask | None:
    """The compaction task of one bucket; None if there is nothing to do.

    ``entries`` are the live files of the bucket, ``vector_files`` its index files with deletion vectors.
    """
    if not entries:
        return None
    first, files = entries[0], [e.file for e in entries]
    bucket_key = (first.partition, first.bucket, first.total_buckets)
    deleted = {r.data_file: r.cardinality or 0 for entry in vector_files for r in entry.deletion_vectors or ()}
    if not schema.is_keyed:
        picked = _pick_appended(files, schema, full, deleted)
        return CompactionTask(*bucket_key, picked, 0, False, vector_files=tuple(vector_files)) if picked else None
    runs = sorted_runs(files, KeyRange.of(schema))
    counted = _pick_keyed(runs, schema, full, deleted)
    if counted is None:
        return None
    count, level = counted
    if count < len(runs) and not needs_lookup(Options(schema.options)):
        retracts = any(has_deletes(f) for run in runs[:count] for f in run.files)
        if not engine_of(schema).folds_parts(retracts):
            count, level = len(runs), max(highest_level(schema), runs[-1].level)
    return CompactionTask(
        *bucket_key,
        tuple(f for run in runs[:count] for f in run.files),
        level,
        level >= runs[-1].level or Options(schema.options).need(DELETION_VECTORS),
        level >= max(highest_level(schema), runs[-1].level),
        tuple(f for run in runs[count:] for f in run.files),
        tuple(vector_files),
        purges_deletes=full,
    )


def _pick_keyed(
    runs: Sequence[SortedRun], schema: TableSchema, full: bool, deleted: Mapping[str, int]
) -> tuple[int, int] | None:
    """The number of newest runs to merge, and the output level."""
    options = Options(schema.options)
    picked = pick_runs(runs, options, full, clock.local_now_ms())
    # the parts of a total may fit the wider type of an ALTER TABLE
    are_parts_old = any(is_apart(f) and f.schema_id != schema.id for r in runs if r.level == 0 for f in r.files)
    if picked is None and full:
        expiry = RecordExpiry.of(schema)
        files = [f for run in runs for f in run.files]
        is_old = are_parts_old or any(
            f.file_name in deleted or (expiry is not None and expiry.has_old(f)) for f in files
        )
        return (len(runs), runs[-1].level) if is_old or options.need(FORCE_REWRITE) else None
    if picked is None and options.need(FORCE_UP_LEVEL_ZERO):
        return pick_level_zero(runs, options)
    if picked is None and needs_lookup(options):
        return pick_level_zero(runs, options, 0 if are_parts_old else lookup_interval(options))
    return picked


def _pick_appended(
    files: Sequence[DataFileMeta], schema: TableSchema, full: bool, deleted: Mapping[str, int]
) -> tuple[DataFileMeta, ...]:
    """Files with many deleted rows, or neighbouring small ones; both for a full compaction.

    If rows are ordered, a file with many deleted rows is selected alone.
    """
    options = Options(schema.options)
    ordered = sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time_ms or 0, f.file_name))
    limit = 0.0 if full else options.need(DELETE_RATIO)
    target = target_file_size(schema)
    worn = tuple(f for f in ordered if deleted.get(f.file_name, 0) > limit * f.row_count)
    if schema.num_buckets != DYNAMIC_BUCKET:
        worn = worn[:1]
    elif full:
        names = {f.file_name for f in worn}
        picked = tuple(f for f in ordered if f.file_name in names or is_small(f, target))
        return picked if worn or len(picked) > 1 else ()
    return worn or pick_small_files(ordered, target, options.need(COMPACTION_MIN_FILES), full)


@dataclass(frozen=True)
class CompactionResult:
    """The uncommitted result of the compactor, which its caller commits.

    ``files`` are new, replaced and changelog files of the bucket, ``index`` its new index files.
    """

    files: BucketFiles
    index: IndexChange = IndexChange()

    def __bool__(self) -> bool:
        """Returns whether there is anything to commit."""
        return bool(self.files.new_files or self.files.deleted_files or self.files.changelog_files or self.index)


def joined_index(results: Sequence[CompactionResult]) -> IndexChange:
    """The index changes of several buckets as one."""
    return IndexChange(
        tuple(entry for r in results for entry in r.index.added),
        frozenset(name for r in results for name in r.index.deleted),
        tuple(seen for r in results for seen in r.index.seen),
    )
