"""Selection of sorted runs, or of files of a table without a key, for a compaction (format sheet 7). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.filestore.metadata.levels import SortedRun, has_deletes, is_apart
from lakelog.options.option import Options
from lakelog.options.picking import (
    INCREMENTAL_SIZE_THRESHOLD,
    LOOKUP_COMPACT,
    LOOKUP_COMPACT_INTERVAL,
    OPTIMIZATION_INTERVAL,
    TOTAL_SIZE_THRESHOLD,
)
from lakelog.options.table import COMPACTION_TRIGGER, NUM_LEVELS, SIZE_AMPLIFICATION, SIZE_RATIO
from lakelog.paimon.metadata.data_file import DataFileMeta

_SMALL_SHARE = 0.7
"""A file below this share of the target size is small and is compacted with its neighbours."""


def pick_runs(
    runs: Sequence[SortedRun], options: Options, full: bool = False, now_ms: int | None = None
) -> tuple[int, int] | None:
    """The number of newest runs to merge, and the output level; None if there is nothing to do.

    ``runs`` are newest first. With ``full``, or if an early full compaction is due (``now_ms`` is the local time, as in
    ``_CREATION_TIME``), all runs are merged to the highest level. Otherwise it is a universal compaction, which starts
    at ``num-sorted-run.compaction-trigger`` runs. It selects all runs if the newer ones together exceed
    ``compaction.max-size-amplification-percent`` of the oldest. Else it selects the newest ones of similar size
    (``compaction.size-ratio``). If none is, and there are more runs than the trigger, it selects as many of the newest
    as bring the number down to the trigger, as Paimon does: at the trigger itself it waits for one more run, so that a
    growing bucket with runs on most levels is not compacted at each commit.
    """
    trigger = options.need(COMPACTION_TRIGGER)
    top = _top_level(runs, options)
    if full:
        done = all(is_apart(f) or (r.level == top and not has_deletes(f)) for r in runs for f in r.files)
        return None if done else (len(runs), top)
    work = without_apart(runs)
    if len(work) < 2:
        return None
    if _is_due(runs, options, top, now_ms):
        return len(runs), top
    if len(work) < trigger:
        return None
    newer = sum(r.size for r in work[:-1])
    if newer * 100 > options.need(SIZE_AMPLIFICATION) * work[-1].size:
        return len(runs), top
    ratio = options.need(SIZE_RATIO)
    count = _like_sized(work, 1, ratio)
    if count == 1 and len(work) > trigger:
        count = _like_sized(work, len(work) - trigger + 1, ratio)
    return _with_level(runs, runs.index(work[count - 1]) + 1, top) if count > 1 else None


def without_apart(runs: Sequence[SortedRun]) -> list[SortedRun]:
    """The runs that are not only rows that a compaction kept apart: those are no work for another one."""
    return [run for run in runs if not all(map(is_apart, run.files))]


def pick_level_zero(runs: Sequence[SortedRun], options: Options, least: int = 1) -> tuple[int, int] | None:
    """The number of newest runs to merge, and the output level, so that level 0 becomes empty.

    Called for tables whose level 0 is looked up, or not read, before its compaction. None if level 0 has fewer than
    ``least`` files.
    """
    count = sum(run.level == 0 for run in runs)
    if not count or sum(run.level == 0 for run in without_apart(runs)) < least:
        return None
    return _with_level(runs, _like_sized(runs, count, options.need(SIZE_RATIO)), _top_level(runs, options))


def lookup_interval(options: Options) -> int:
    """Minimum files of level 0 for a lookup compaction (``lookup-compact``)."""
    if options.need(LOOKUP_COMPACT) == "radical":
        return 1
    trigger = options.need(COMPACTION_TRIGGER)
    return max(trigger, options.get_typed(LOOKUP_COMPACT_INTERVAL) or 2 * trigger)


def _top_level(runs: Sequence[SortedRun], options: Options) -> int:
    """The highest level: that of the options, or a higher one with files from earlier options."""
    top = (options.get_typed(NUM_LEVELS) or options.need(COMPACTION_TRIGGER) + 1) - 1
    return max([top, *(run.level for run in runs)])


def _is_due(runs: Sequence[SortedRun], options: Options, top: int, now_ms: int | None) -> bool:
    """Returns whether an early full compaction is due: by time, for a small bucket, or for many new rows."""
    interval = options.get_typed(OPTIMIZATION_INTERVAL)
    if interval is not None and now_ms is not None:
        last = max((f.creation_time_ms or 0 for run in runs if run.level == top for f in run.files), default=0)
        if now_ms - last > interval.total_seconds() * 1000:
            return True
    total, new = options.get_typed(TOTAL_SIZE_THRESHOLD), options.get_typed(INCREMENTAL_SIZE_THRESHOLD)
    if total is not None and sum(run.size for run in runs) < total:
        return True
    return new is not None and sum(run.size for run in runs if run.level != top) > new


def _like_sized(runs: Sequence[SortedRun], count: int, ratio: int) -> int:
    """The first ``count`` runs and the following ones that are not larger than all previous ones together."""
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
        # level 0 cannot be the output: add runs up to the first one of a higher level
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
    """Neighbouring small files of an append table to merge, in order; () if there are too few.

    ``files`` are in the order of their rows. Selects the first sequence of at least ``trigger`` small files (2 with
    ``full``) that stays within the target size or has not reached it.
    """
    least = 2 if full else trigger
    files_so_far: list[DataFileMeta] = []
    size = 0
    for file in files:
        if file.file_size < target_size * _SMALL_SHARE and (size < target_size or full):
            files_so_far.append(file)
            size += file.file_size
            continue
        if len(files_so_far) >= least:
            break
        files_so_far, size = ([file], file.file_size) if file.file_size < target_size * _SMALL_SHARE else ([], 0)
    return tuple(files_so_far) if len(files_so_far) >= least else ()


def is_small(file: DataFileMeta, target_size: int) -> bool:
    """Returns whether a file is small enough to be compacted."""
    return file.file_size < target_size * _SMALL_SHARE
