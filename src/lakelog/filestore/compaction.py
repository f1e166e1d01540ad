"""Decides what to compact in one bucket (format sheet 7). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.filestore.data_file_writer import target_file_size
from lakelog.filestore.levels import KeyRange, SortedRun, has_deletes, sorted_runs
from lakelog.filestore.record_expiry import RecordExpiry
from lakelog.options.option import Options
from lakelog.options.table import (
    COMPACTION_MIN_FILES,
    COMPACTION_TRIGGER,
    DELETION_VECTORS,
    NUM_LEVELS,
    SIZE_AMPLIFICATION,
    SIZE_RATIO,
    needs_lookup,
)
from lakelog.spec.data_file import DataFileMeta
from lakelog.spec.manifest import IndexManifestEntry, ManifestEntry
from lakelog.spec.schema import TableSchema

_SMALL_SHARE = 0.7
"""A file below this share of the target size is small: worth writing again together with its neighbours."""


@dataclass(frozen=True)
class CompactionTask:
    """Files of one bucket to merge, and where the result goes.

    ``drop_deletes``: nothing older is left below the result, or deletion vectors hide it, so delete rows have done
    their work. ``upper_files`` are those of the bucket that stay where they are, on levels above the output: what the
    merged rows replace there is looked up. ``vector_files`` are the index files with the bucket's deletion vectors;
    with ``purges`` files that have one are written again without the deleted rows.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    output_level: int
    drop_deletes: bool
    upper_files: tuple[DataFileMeta, ...] = ()
    vector_files: tuple[IndexManifestEntry, ...] = ()
    purges: bool = False

    @property
    def has_vectors(self) -> bool:
        """Whether a file of the task has a deletion vector."""
        names = {r.data_file for entry in self.vector_files for r in entry.deletion_vectors or ()}
        return any(f.file_name in names for f in self.files)


def pick_compaction(
    entries: Sequence[ManifestEntry],
    schema: TableSchema,
    full: bool = False,
    vector_files: Sequence[IndexManifestEntry] = (),
) -> CompactionTask | None:
    """What to compact in one bucket; None when there is nothing to do. Pure.

    ``entries`` are the live files of the bucket, ``vector_files`` its index files with deletion vectors.
    """
    if not entries:
        return None
    first, files = entries[0], [e.file for e in entries]
    place = (first.partition, first.bucket, first.total_buckets)
    if not schema.is_keyed:
        return _pick_appended(place, files, schema, full, tuple(vector_files))
    options = Options(schema.options)
    runs = sorted_runs(files, KeyRange.of(schema))
    has_vectors = options.need(DELETION_VECTORS)
    deleted_in = {r.data_file for entry in vector_files for r in entry.deletion_vectors or ()}
    picked = pick_runs(runs, options, full)
    if picked is None and full:
        expiry = RecordExpiry.of(schema)
        is_old = any(f.file_name in deleted_in or (expiry is not None and expiry.has_old(f)) for f in files)
        picked = (len(runs), runs[-1].level) if is_old else None
    if picked is None and needs_lookup(options):
        picked = pick_level_zero(runs, options)
    if picked is None:
        return None
    count, level = picked
    chosen = tuple(f for run in runs[:count] for f in run.files)
    upper = tuple(f for run in runs[count:] for f in run.files)
    drops = level >= max(run.level for run in runs) or has_vectors
    return CompactionTask(*place, chosen, level, drops, upper, tuple(vector_files), purges=full)


def _pick_appended(
    place: tuple[bytes, int, int],
    files: Sequence[DataFileMeta],
    schema: TableSchema,
    full: bool,
    vector_files: tuple[IndexManifestEntry, ...],
) -> CompactionTask | None:
    ordered = sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time_ms or 0, f.file_name))
    trigger = Options(schema.options).need(COMPACTION_MIN_FILES)
    small = pick_small_files(ordered, target_file_size(schema), trigger, full)
    return CompactionTask(*place, small, 0, False, vector_files=vector_files) if small else None


def pick_level_zero(runs: Sequence[SortedRun], options: Options) -> tuple[int, int] | None:
    """How many of the newest runs to merge, and to which level, so that nothing stays on level 0; None: nothing is.

    Called for tables whose level 0 is looked up, or not read, before it is compacted.
    """
    count = sum(run.level == 0 for run in runs)
    if not count:
        return None
    max_level = (options.get_typed(NUM_LEVELS) or options.need(COMPACTION_TRIGGER) + 1) - 1
    return _with_level(runs, _like_sized(runs, count, options.need(SIZE_RATIO)), max_level)


def pick_runs(runs: Sequence[SortedRun], options: Options, full: bool = False) -> tuple[int, int] | None:
    """How many of the newest runs to merge and to which level; None when there is nothing to do.

    ``runs`` are newest first. With ``full`` everything goes to the highest level. Else universal compaction, once
    ``num-sorted-run.compaction-trigger`` runs are there: all runs when the newer ones together pass
    ``compaction.max-size-amplification-percent`` of the oldest; the newest ones of like size
    (``compaction.size-ratio``); or as many of the newest as bring the number below the trigger.
    """
    trigger = options.need(COMPACTION_TRIGGER)
    max_level = (options.get_typed(NUM_LEVELS) or trigger + 1) - 1
    if full:
        done = all(r.level == max_level and not any(has_deletes(f) for f in r.files) for r in runs)
        return None if done else (len(runs), max_level)
    if len(runs) < trigger or len(runs) < 2:
        return None
    newer = sum(r.size for r in runs[:-1])
    if newer * 100 > options.need(SIZE_AMPLIFICATION) * runs[-1].size:
        return len(runs), max_level
    ratio = options.need(SIZE_RATIO)
    count = _like_sized(runs, 1, ratio)
    if count == 1:
        count = _like_sized(runs, max(2, len(runs) - trigger + 2), ratio)
    return _with_level(runs, count, max_level)


def _like_sized(runs: Sequence[SortedRun], count: int, ratio: int) -> int:
    """The first ``count`` runs and those after them that are not larger than all before together."""
    size = sum(r.size for r in runs[:count])
    while count < len(runs) and size * (100 + ratio) >= runs[count].size * 100:
        size += runs[count].size
        count += 1
    return count


def _with_level(runs: Sequence[SortedRun], count: int, max_level: int) -> tuple[int, int]:
    if count < len(runs):
        level = runs[count].level - 1
        if level > 0:
            return count, level
        # level 0 can be no target: go on until the run of a higher level is in
        while count < len(runs):
            count += 1
            if runs[count - 1].level > 0:
                break
        if count < len(runs):
            return count, runs[count - 1].level
    return count, max_level


def pick_small_files(
    files: Sequence[DataFileMeta], target_size: int, trigger: int, full: bool = False
) -> tuple[DataFileMeta, ...]:
    """Neighbouring small files of an append table to join, in order; () when there are too few.

    ``files`` in the order of their rows. Picks the first stretch of at least ``trigger`` small files (2 with ``full``),
    as long as it stays within the target size or has not yet reached it.
    """
    least = 2 if full else trigger
    held: list[DataFileMeta] = []
    size = 0
    for file in files:
        if file.file_size < target_size * _SMALL_SHARE and (size < target_size or full):
            held.append(file)
            size += file.file_size
            continue
        if len(held) >= least:
            break
        held, size = ([file], file.file_size) if file.file_size < target_size * _SMALL_SHARE else ([], 0)
    return tuple(held) if len(held) >= least else ()


def is_small(file: DataFileMeta, target_size: int) -> bool:
    """Whether a file is worth writing again."""
    return file.file_size < target_size * _SMALL_SHARE
