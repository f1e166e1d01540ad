"""The health of a table as a number from 0 to 100, and what it is made of. Pure.

A finding (``findings.py``) caps it at 20, whatever the parts say.

========== ====== ===================================================================================================
part       points
========== ====== ===================================================================================================
files      40     the mean over the buckets of: 1 while its sorted runs (without a key: the files that a compaction
                  would take) are below the compaction trigger, then falling to 0 at four times the trigger
freshness  30     with a log: 1 while the oldest row outside the files is younger than three commit intervals (not less
                  than 10 s), falling to 0 at thirty of them, 0 when the log cannot be reached; 1 without a log
writers    15     1, less a third for each batch writer that died and is not healed
history    15     1, less the share that expirable snapshots have of ``snapshot.expire.limit`` (half of the points), and
                  less half when orphan files were not looked for in twice ``optimizer.orphan-interval``
========== ====== ===================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.options.log import COMMIT_INTERVAL
from lakelog.options.optimizer import ORPHAN_INTERVAL
from lakelog.options.option import Options
from lakelog.options.retention import SNAPSHOT_EXPIRE_LIMIT
from lakelog.options.table import COMPACTION_MIN_FILES, COMPACTION_TRIGGER
from lakelog.table.health.formatting import counted, format_age
from lakelog.table.health.stats import BucketStats, TableStats

_FILES, _FRESHNESS, _WRITERS, _HISTORY = 40, 30, 15, 15
_LEAST_LATE_MS = 10_000
_WITH_FINDINGS = 20


@dataclass(frozen=True)
class ScorePart:
    """One part of the score: ``points`` of at most ``of``, and why."""

    name: str
    points: float
    of: int
    why: str


def score_parts(figures: TableStats, options: Options, now_ms: int) -> tuple[ScorePart, ...]:
    """The parts of the score; together 0 to 100."""
    return (
        _files(figures, options),
        _freshness(figures, options, now_ms),
        _writers(figures),
        _history(figures, options, now_ms),
    )


def total(parts: tuple[ScorePart, ...], has_findings: bool = False) -> int:
    """The score."""
    score = round(sum(part.points for part in parts))
    return min(score, _WITH_FINDINGS) if has_findings else score


def _files(figures: TableStats, options: Options) -> ScorePart:
    limit = options.need(COMPACTION_TRIGGER if figures.is_keyed else COMPACTION_MIN_FILES)
    loads = [_load(bucket, figures.is_keyed) for bucket in figures.buckets]
    shares = [_falling(load, limit - 1, 4 * limit) for load in loads]
    share = sum(shares) / len(shares) if shares else 1.0
    what = "sorted run" if figures.is_keyed else "due file"
    return _part(
        "files",
        share,
        _FILES,
        f"{counted(max(loads, default=0), what)} in the fullest bucket; a compaction begins at {limit}",
    )


def _load(bucket: BucketStats, is_keyed: bool) -> int:
    return bucket.sorted_runs if is_keyed else bucket.due_files


def _freshness(figures: TableStats, options: Options, now_ms: int) -> ScorePart:
    log = figures.log
    if log is None:
        return _part("freshness", 1.0, _FRESHNESS, "no log, or the log was left out")
    if log.trouble:
        return _part("freshness", 0.0, _FRESHNESS, "unknown: the log cannot be read")
    if log.waiting_ms is None:
        return _part("freshness", 1.0, _FRESHNESS, "all committed rows of the log are in files")
    late = max(_LEAST_LATE_MS, 3 * options.need(COMMIT_INTERVAL).total_seconds() * 1000)
    age = max(0, now_ms - log.waiting_ms)
    why = f"the oldest row not in files is {format_age(age)} old; up to {format_age(late)} is normal"
    return _part("freshness", _falling(age, late, 10 * late), _FRESHNESS, why)


def _writers(figures: TableStats) -> ScorePart:
    if figures.log is not None and figures.log.trouble:
        return _part("writers", 0.0, _WRITERS, "unknown: the log cannot be read")
    dead = 0 if figures.log is None else sum(w.is_gone for w in figures.log.writers)
    return _part("writers", max(0.0, 1 - dead / 3), _WRITERS, counted(dead, "dead writer"))


def _history(figures: TableStats, options: Options, now_ms: int) -> ScorePart:
    history = figures.snapshots
    share = 1 - min(1.0, history.expirable / max(1, options.need(SNAPSHOT_EXPIRE_LIMIT))) / 2
    why = counted(history.expirable, "expirable snapshot")
    every = options.need(ORPHAN_INTERVAL).total_seconds() * 1000
    since = history.created_ms if history.orphans_cleaned_ms is None else history.orphans_cleaned_ms
    if every and now_ms - since > 2 * every:
        share -= 0.5
        why += f", orphan files not cleaned for {format_age(now_ms - since)}"
    return _part("history", share, _HISTORY, why)


def _falling(value: float, good: float, bad: float) -> float:
    """1 up to ``good``, 0 from ``bad`` on, and a line between."""
    return min(1.0, max(0.0, (bad - value) / (bad - good)))


def _part(name: str, share: float, of: int, why: str) -> ScorePart:
    return ScorePart(name, round(max(0.0, share) * of, 1), of, why)
