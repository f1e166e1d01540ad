"""Compacts a table in parallel with its streaming writers, in a thread, so that no seal waits for a compaction.

A seal waits only if a bucket has ``num-sorted-run.stop-trigger`` sorted runs and the thread is compacting them. Rows
still reach the log.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from lakelog.io.clock import monotonic_s
from lakelog.io.logs import fields
from lakelog.io.machine import PerProcess
from lakelog.merge.table_rules import needs_lookup
from lakelog.options.compaction import STOP_TRIGGER
from lakelog.options.table import COMPACTION_TRIGGER
from lakelog.table.maintenance.compaction_commit import CompactionSummary, GroupedCommits
from lakelog.table.maintenance.compaction_job import run_tasks
from lakelog.table.maintenance.compaction_schedule import FullCompactions
from lakelog.table.maintenance.compaction_task import LocalExecutor, plan_tasks
from lakelog.table.maintenance.retention import expire_by_options
from lakelog.table.model.dynamic_table import DynamicTable

_LOG = logging.getLogger("lakelog.compact")

_RECHECK_S: Final = 1.0
"""Delay before a retry of a bucket that another compactor had, while its new rows are not visible."""


class CompactionWorker:
    """Compacts one table on each new snapshot, and expires old data by its options."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._table: DynamicTable | None = None
        self._thread: threading.Thread | None = None
        self._is_wanted = self._is_busy = self._is_stopped = False
        self._failure: Exception | None = None
        self._runs = 0
        self._sealed = 0
        self._full = FullCompactions()

    def notify(self, table: DynamicTable) -> None:
        """Signals a new snapshot of the table; returns at once.

        Snapshots during a round are handled together in the next one. Does nothing after ``stop``.
        """
        with self._changed:
            self._table, self._is_wanted = table, True
            self._sealed += 1
            if not self._is_stopped and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._run, name="lakelog-compact", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def take_failure(self) -> Exception | None:
        """The error of the last round, once."""
        with self._changed:
            failure, self._failure = self._failure, None
            return failure

    def wait_for_room(self, table: DynamicTable) -> None:
        """Waits while compactions lag by too many sorted runs, until one more snapshot may be made.

        It never waits for compactors of other processes, nor for a failed round.
        """
        trigger = table.options.need(COMPACTION_TRIGGER)
        most = table.options.get_typed(STOP_TRIGGER)
        limit = max(trigger, trigger + 3 if most is None else most)
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or not self._is_working or self._most_runs < limit)

    def wait(self) -> None:
        """Waits until no work is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or not self._is_working)

    def stop(self) -> None:
        """Stops after the commit of the current bucket; waiting buckets are left to others."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    @property
    def _is_working(self) -> bool:
        return self._is_wanted or self._is_busy

    @property
    def _most_runs(self) -> int:
        """The maximum number of sorted runs in a bucket: those of the last check, plus one per snapshot since."""
        return self._runs + self._sealed

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted or self._is_stopped)
                table = self._table
                if self._is_stopped or table is None:
                    return
                self._is_wanted, self._is_busy = False, True
            is_complete = True
            try:
                is_complete = self._compact(table)
                expire_by_options(table)
            except Exception as failure:
                # An exiting interpreter starts no threads; the bucket is abandoned, and nothing of it is visible.
                level = logging.INFO if self._is_stopped else logging.WARNING
                _LOG.log(
                    level, "compaction of table %s failed: %s", table.name, failure, extra=fields(table=table.name)
                )
                self._failure = failure
            finally:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()
                    if not is_complete:
                        self._changed.wait_for(lambda: self._is_wanted or self._is_stopped, _RECHECK_S)
                        self._is_wanted = True

    def _compact(self, table: DynamicTable) -> bool:
        """Runs one round. False if it left a bucket to another compactor while its new rows are not visible."""
        with self._changed:
            self._sealed = 0
        full = self._full.is_due(table)
        tasks = plan_tasks(table, full)
        # a bucket that is not picked has no more runs
        others = table.options.need(COMPACTION_TRIGGER)

        def on_progress(done: int, _: int) -> None:
            with self._changed:
                self._runs = max([others, *(task.runs for task in tasks[done:])])
                self._changed.notify_all()

        on_progress(0, 0)
        started = monotonic_s()
        commits = GroupedCommits(table)
        run_tasks(commits, table, tasks, LocalExecutor(), on_progress, full, lambda: self._is_stopped)
        _log_summary(table, commits.summary(monotonic_s() - started))
        return not (commits.busy or commits.lost) or not (table.schema.is_keyed and needs_lookup(table.options))


def _log_summary(table: DynamicTable, done: CompactionSummary) -> None:
    if done:
        snapshot = None if done.snapshot is None else done.snapshot.id
        about = fields(table=table.name, snapshot=snapshot, files=done.files_before, duration_s=round(done.seconds, 4))
        _LOG.info(
            "table %s: %s buckets compacted in %.1f s, %s files became %s",
            table.name, done.buckets, done.seconds, done.files_before, done.files_after, extra=about,
        )  # fmt: skip


_WORKERS: Final[PerProcess[tuple[str, str], CompactionWorker]] = PerProcess()


def worker_for(table: DynamicTable) -> CompactionWorker:
    """The worker of a table in this process, shared by all its writers; a recreated table of this name has another."""
    return _WORKERS.get((table.identity.key, table.store.paths.branch_root), CompactionWorker)


def stop_workers() -> None:
    """Stops all workers of this process, each after its bucket. Called at process exit."""
    for worker in _WORKERS.all():
        worker.stop()
