"""Compacts many buckets of a table: tasks run here or on Spark, results are committed in groups as they arrive."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from datetime import timedelta
from typing import Final

from lakelog.errors import InvalidRequest
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.io.clock import local_now_ms, monotonic_s, sleep
from lakelog.io.lease import DURATION_MS
from lakelog.io.metrics import METER
from lakelog.options.metrics import COMPACTION_DURATION, COMPACTIONS
from lakelog.table.maintenance.compaction_commit import GROUP_S, CompactionSummary, GroupedCommits
from lakelog.table.maintenance.compaction_schedule import FULL_MARK
from lakelog.table.maintenance.compaction_task import (
    BucketOutcome,
    BucketTask,
    Executor,
    LocalExecutor,
    pack_tasks,
    plan_tasks,
)
from lakelog.table.maintenance.publish import publish_best_effort
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.partition_selection import existing_partitions, partitions_meeting

_POLL_S: Final = 0.5
_THREADS: Final = 4
"""Maximum number of buckets compacted in parallel in this process, because each needs memory."""

Progress = Callable[[int, int], None]
"""Called with the numbers of finished buckets and of all buckets."""


def _never() -> bool:
    return False


def compact_table(
    table: DynamicTable,
    full: bool = True,
    partitions: Iterable[bytes] | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> CompactionSummary:
    """Compacts every bucket (or those with too many sorted runs, with ``full`` false) of all or some partitions.

    Called by a user's job. A full compaction waits for other compactors of a bucket, at most until a dead one's lease
    would expire. It retries a bucket that another commit has changed in the meantime. Raises the errors of a task;
    finished work stays committed.
    """
    started = monotonic_s()
    chosen = LocalExecutor(min(_THREADS, os.cpu_count() or 1)) if executor is None else executor
    commits = GroupedCommits(table)
    tasks = plan_tasks(table, full, partitions)
    is_whole = full and partitions is None
    while True:
        run_tasks(commits, table, tasks, chosen, progress, marks_full=is_whole)
        tasks = [*commits.busy, *commits.lost]
        if not full or not tasks or monotonic_s() - started > 2 * DURATION_MS / 1000:
            return commits.summary(monotonic_s() - started)
        sleep(_POLL_S)


def chosen_partitions(
    table: DynamicTable, specs: Sequence[Mapping[str, object]] = (), condition: Predicate | None = None
) -> frozenset[bytes] | None:
    """The live partitions with the values of one of the specs that match a condition; None for all of the table.

    Raises InvalidRequest for a condition on other columns than the partition's, InvalidSchema, NotFound for a spec
    without a partition.
    """
    if not specs and condition is None:
        return None
    keys = table.schema.partition_keys
    others = sorted(() if condition is None else condition.columns - set(keys))
    if others:
        raise InvalidRequest(
            f"a compaction of table {table.name} selects whole partitions (partition columns: "
            f"{', '.join(keys) or 'none'}): remove {', '.join(others)} from the condition"
        )
    live = {entry.partition for entry in table.store.live_entries(table.store.latest_snapshot())}
    partitions_found = existing_partitions(table, live, specs, if_exists=False) if specs else frozenset(live)
    return partitions_found if condition is None else partitions_meeting(table.schema, partitions_found, condition)


def idle_partitions(
    table: DynamicTable, idle: timedelta, partitions: frozenset[bytes] | None = None
) -> frozenset[bytes]:
    """The live partitions (None: of all) whose newest data file is older than the time given."""
    latest = table.store.latest_snapshot()
    oldest = local_now_ms() - idle.total_seconds() * 1000
    newest: dict[bytes, int] = {}
    for entry in table.store.live_entries(latest):
        newest[entry.partition] = max(newest.get(entry.partition, 0), entry.file.creation_time_ms or 0)
    return frozenset(
        p for p, written_ms in newest.items() if written_ms < oldest and (partitions is None or p in partitions)
    )


def run_tasks(
    commits: GroupedCommits,
    table: DynamicTable,
    tasks: Sequence[BucketTask],
    executor: Executor,
    progress: Progress | None = None,
    marks_full: bool = False,
    is_stopped: Callable[[], bool] = _never,
) -> None:
    """Runs tasks and commits their results in groups; ``commits`` then has the busy and the lost buckets.

    With ``marks_full`` the last snapshot records that the whole table has been compacted, if it has. Between two packs
    ``is_stopped`` decides whether to skip the rest.
    """
    commits.busy, commits.lost = [], []
    if tasks:
        with METER.step("compaction", "buckets", len(tasks), table=table.name) as step:

            def report(done: int, total: int) -> None:
                step.done = done
                if progress is not None:
                    progress(done, total)

            _run_all(commits, table, tasks, executor, report, marks_full, is_stopped)
        METER.add(COMPACTIONS, table=table.name)
        METER.observe(COMPACTION_DURATION, step.seconds, table=table.name)
        publish_best_effort(table)  # some tables show rows only after a compaction


def _run_all(
    commits: GroupedCommits,
    table: DynamicTable,
    tasks: Sequence[BucketTask],
    executor: Executor,
    report: Progress,
    marks_full: bool,
    is_stopped: Callable[[], bool],
) -> None:
    done, finished = 0, False
    try:
        for outcomes in _outcomes(table, tasks, executor, is_stopped):
            done += len(outcomes)
            commits.add(outcomes)
            if outcomes:
                report(done, len(tasks))
            # the rest is committed below, with the mark
            if commits.is_due and done < len(tasks):
                commits.commit()
        finished = done == len(tasks) and not commits.busy and not commits.lost
    finally:
        commits.commit({FULL_MARK: "true"} if finished and marks_full else None)


def _outcomes(
    table: DynamicTable, tasks: Sequence[BucketTask], executor: Executor, is_stopped: Callable[[], bool]
) -> Iterator[list[BucketOutcome]]:
    """The outcomes of finished packs, and at intervals nothing, so that others do not wait for a long one."""
    if executor.slots == 1:
        for task in tasks:
            if is_stopped():
                return
            yield executor.run(table, [task])
        return
    with ThreadPoolExecutor(executor.slots, "lakelog-compact") as pool:
        waiting: set[Future[list[BucketOutcome]]] = {
            pool.submit(copy_context().run, executor.run, table, pack) for pack in pack_tasks(tasks, executor.slots)
        }
        failure: BaseException | None = None
        try:
            while waiting:
                ready, waiting = wait(waiting, GROUP_S, FIRST_COMPLETED)
                for future in ready:
                    if future.cancelled():
                        continue
                    if (why := future.exception()) is None:
                        yield future.result()
                    elif failure is None:
                        # running tasks still finish and count
                        failure = why
                        for other in waiting:
                            other.cancel()
                if not ready:
                    yield []
                if is_stopped():
                    for other in waiting:
                        other.cancel()
        finally:
            pool.shutdown(cancel_futures=True)
    if failure is not None:
        raise failure
