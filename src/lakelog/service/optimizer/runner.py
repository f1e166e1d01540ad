"""Runs one need of one table and returns its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakelog.errors import LakelogError, NotFound, Unavailable
from lakelog.io.lease import Leases
from lakelog.io.quantities import counted, format_bytes
from lakelog.logstore.clients import reader_for
from lakelog.options.retention import CONSUMER_EXPIRATION_TIME
from lakelog.table.commit.take_over import seal_abandoned, take_over
from lakelog.table.health.actions import (
    COMPACTION,
    EXPIRY,
    FULL_COMPACTION,
    HEALING,
    ORPHAN_CLEANING,
    PARTITION_EXPIRY,
    TAG_EXPIRY,
)
from lakelog.table.maintenance.compaction_commit import CompactionSummary, GroupedCommits
from lakelog.table.maintenance.compaction_job import Progress, run_tasks
from lakelog.table.maintenance.compaction_task import BucketTask, Executor, LocalExecutor, plan_tasks
from lakelog.table.maintenance.publish import publish
from lakelog.table.maintenance.retention import expire_log, expire_snapshots, remove_orphan_files
from lakelog.table.maintenance.run_history import DONE, FAILED, NOTHING, STOPPED, WAITS
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.partition_expiry import expire_partitions


@dataclass(frozen=True)
class RunContext:
    """The context of a run: the executor and byte limit of compactions, and a progress callback.

    If ``is_stopped`` returns True at a safe point, the run leaves the rest. For ``most_bytes`` and ``may_exceed`` see
    ``Job``.
    """

    is_stopped: Callable[[], bool]
    executor: Executor | None = None
    most_bytes: int | None = None
    may_exceed: bool = True
    progress: Progress | None = None


@dataclass(frozen=True)
class RunResult:
    """The outcome of a run: fields of ``Run``."""

    outcome: str
    detail: str = ""
    snapshot: int | None = None
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def run_action(table: DynamicTable, kind: str, work: RunContext) -> RunResult:
    """Runs one kind of maintenance on a table. The result reports a failure, which leaves no partial effect.

    Compactions take the lease of each bucket, other kinds one lease of the table and the kind. If several processes
    try, one runs it, and the others return ``waits``.
    """
    try:
        if kind in (COMPACTION, FULL_COMPACTION):
            return _compact(table, kind == FULL_COMPACTION, work)
        with Leases(table.io, f"{table.store.paths.branch_root}/lakelog/optimizer").holding(kind) as is_ours:
            return _RUNS[kind](table, work) if is_ours else RunResult(WAITS, "another process is doing it")
    except LakelogError as why:
        return RunResult(FAILED, f"{type(why).__name__}: {why}")
    except Exception as why:  # Spark's, Arrow's: one table must not end the others' maintenance
        return RunResult(FAILED, f"{type(why).__name__}: {str(why).strip()[:2000]}")


def _compact(table: DynamicTable, full: bool, work: RunContext) -> RunResult:
    planned = plan_tasks(table, full)
    tasks = _within(planned, work)
    if not tasks:
        return RunResult(WAITS, "the byte budget of this hour is used up") if planned else RunResult(NOTHING)
    commits, failure = GroupedCommits(table), None
    executor = LocalExecutor() if work.executor is None else work.executor
    is_whole = full and len(tasks) == len(planned)
    try:
        run_tasks(commits, table, tasks, executor, work.progress, is_whole, work.is_stopped)
    except Exception as why:  # what was done until then is committed and counts
        failure = f"{type(why).__name__}: {str(why).strip()[:2000]}"
    done = commits.summary(0.0)
    left = len(tasks) - done.buckets - done.busy - done.lost if work.is_stopped() else 0
    return RunResult(
        _outcome(done, failure, left > 0),
        failure or _outcome_text(done, left, len(planned) - len(tasks)),
        None if done.snapshot is None else done.snapshot.id,
        done.files_before,
        done.files_after,
        done.bytes_before,
        done.bytes_after,
    )


def _within(tasks: list[BucketTask], work: RunContext) -> list[BucketTask]:
    """The first tasks within the byte limit."""
    if work.most_bytes is None:
        return tasks
    out: list[BucketTask] = []
    size = 0
    for task in tasks:
        size += task.size
        if size > work.most_bytes:
            return out or (tasks[:1] if work.may_exceed else [])
        out.append(task)
    return out


def _outcome(done: CompactionSummary, failure: str | None, is_stopped: bool) -> str:
    if failure is not None:
        return FAILED
    if is_stopped:
        return STOPPED
    if done:
        return DONE
    return WAITS if done.busy or done.lost else NOTHING


def _outcome_text(done: CompactionSummary, left: int, later: int) -> str:
    parts = [(done.buckets, "compacted"), (done.busy, "leased by another compactor"), (left, "left for the next run")]
    parts += [
        (done.lost, "changed by another commit meanwhile"),
        (later, "waiting for the byte budget of the next hour"),
    ]
    texts = [f"{count} {'bucket' if count == 1 else 'buckets'} {what}" for count, what in parts if count > 0]
    return "; ".join(texts)


def _expire(table: DynamicTable, work: RunContext) -> RunResult:
    unused = table.options.get_typed(CONSUMER_EXPIRATION_TIME)
    forgotten = [] if unused is None else table.store.consumers.expire(unused)
    expired: list[int] = []
    while not work.is_stopped():
        snapshots = expire_snapshots(table)
        expired += snapshots
        if not snapshots:
            break
    parts = [f"snapshots {expired[0]} to {expired[-1]} removed"] if expired else []
    parts += [f"consumer '{consumer.name}' forgotten" for consumer in forgotten]
    parts += _expire_log(table)
    return RunResult(DONE, "; ".join(parts) or "unfinished removals completed")


def _expire_log(table: DynamicTable) -> list[str]:
    if table.log is None:
        return []
    try:
        before = reader_for(table.log).first_offsets()
        expire_log(table)
        removed = sum(first - before.get(b, 0) for b, first in reader_for(table.log).first_offsets().items())
    except (NotFound, Unavailable) as why:  # the snapshots are expired; health reports the log
        return [f"the log was not expired: {why}"]
    return [f"{counted(removed, 'record')} of the log removed"] if removed else []


def _expire_partitions(table: DynamicTable, work: RunContext) -> RunResult:
    expired = expire_partitions(table)
    if not expired:
        return RunResult(NOTHING)
    latest = table.store.snapshots.latest_id()
    return RunResult(DONE, f"{len(expired)} partitions dropped, the last one {expired[-1]}", latest)


def _expire_tags(table: DynamicTable, work: RunContext) -> RunResult:
    expired = table.store.tags.expire()
    return RunResult(DONE, "deleted: " + ", ".join(tag.name for tag in expired)) if expired else RunResult(NOTHING)


def _clean(table: DynamicTable, work: RunContext) -> RunResult:
    orphans = remove_orphan_files(table)
    detail = f"{len(orphans.files)} orphan files removed, {format_bytes(orphans.bytes)}"
    return RunResult(DONE, detail, files_before=len(orphans.files), bytes_before=orphans.bytes)


def _heal(table: DynamicTable, work: RunContext) -> RunResult:
    if table.log is None:
        return RunResult(NOTHING)
    parts: list[str] = []
    snapshot: int | None = None
    for writer in take_over(table):
        parts.append(f"uncommitted rows of dead writer {writer} taken back")
        if work.is_stopped():
            break
    for sealed in seal_abandoned(table):
        parts, snapshot = [*parts, f"snapshot {sealed.id} of decided epochs"], sealed.id
    if publish(table):
        parts.append("file changes appended to the log")
    return RunResult(DONE if parts else NOTHING, "; ".join(parts), snapshot)


_RUNS: Final = {
    EXPIRY: _expire,
    PARTITION_EXPIRY: _expire_partitions,
    TAG_EXPIRY: _expire_tags,
    ORPHAN_CLEANING: _clean,
    HEALING: _heal,
}
