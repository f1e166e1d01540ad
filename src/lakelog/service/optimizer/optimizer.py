"""The optimizer: inspects tables at intervals and runs the needed maintenance, in this process or on Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io import clock
from lakelog.io.names import new_attempt
from lakelog.lake import Lake
from lakelog.logstore.clients import close_clients
from lakelog.service.optimizer.runner import RunContext, run_action
from lakelog.service.optimizer.scheduler import Job, Scheduler, Waiting
from lakelog.service.optimizer.watcher import Observation, OptimizerSettings, TableWatcher
from lakelog.table.maintenance.compaction_task import Executor
from lakelog.table.maintenance.run_history import FAILED, NOTHING, WAITS, Run, Runs

_LOG = logging.getLogger("lakelog.optimizer")
_POLL_S: Final = 1.0
"""Maximum seconds of a wait; a loop checks its clock after it."""


@dataclass(frozen=True)
class Event:
    """An event. ``kind`` is ``ended`` (a run), ``failed`` (a table or catalog cannot be inspected, with the reason in
    ``text``), or ``inspected`` (all ``total`` tables are inspected).
    """

    kind: str
    table: str = ""
    run: Run | None = None
    total: int = 0
    text: str = ""


@dataclass(frozen=True)
class OptimizerState:
    """The current state of an optimizer of this process.

    ``waiting`` are the waiting needs with their reasons, the next one first. ``troubles`` are the tables that could not
    be inspected, with the reasons.
    """

    tables: int
    running: tuple[Run, ...]
    waiting: tuple[Waiting, ...]
    troubles: tuple[tuple[str, str], ...]
    bytes_last_hour: int
    is_stopping: bool


class Optimizer:
    """Maintains the tables of a lake until it is stopped. Several optimizers may maintain the same tables.

    ``listen`` is called with each event, from any thread. ``executor`` runs compactions (None: this process).
    """

    def __init__(
        self,
        lake: Lake,
        settings: OptimizerSettings | None = None,
        listen: Callable[[Event], None] | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.settings = settings or OptimizerSettings()
        self._lake, self._listen, self._executor = lake, listen, executor
        self._watch = TableWatcher(lake, self.settings)
        self._schedule = Scheduler(self.settings, new_attempt())
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._running: dict[str, Run] = {}
        self._ended: list[Run] = []
        self._has_inspected = False

    def plan(self) -> tuple[Observation, ...]:
        """Inspects all tables and returns the needs of each; runs nothing."""
        return tuple(self._watch.inspect_all(self._stopped.is_set))

    def once(self) -> tuple[Run, ...]:
        """Inspects all tables once and runs each need once. Returns the runs in the order of their ends."""
        self._ended.clear()
        with ThreadPoolExecutor(self.settings.parallel, "lakelog-optimizer") as threads:
            self._inspect_all()
            while not self._stopped.is_set() and (self._begin(threads, again=False) or self._running):
                self._wait(_POLL_S)
        return tuple(self._ended)

    def serve(self) -> None:
        """Inspects and runs until ``stop``; then waits for the active runs, which end at their next safe point."""
        with ThreadPoolExecutor(self.settings.parallel, "lakelog-optimizer") as threads:
            next_round = clock.monotonic_s()
            while not self._stopped.is_set():
                if clock.monotonic_s() >= next_round:
                    self._inspect_all(threads)
                    next_round = clock.monotonic_s() + self.settings.interval_s
                self._begin(threads, again=True)
                self._wait(min(_POLL_S, next_round - clock.monotonic_s()))

    def stop(self) -> None:
        """Ends ``serve`` and ``once``. Returns at once; may be called from any thread or signal handler."""
        self._stopped.set()

    def state(self) -> OptimizerState:
        with self._changed:
            now = clock.monotonic_s()
            return OptimizerState(
                self._watch.count,
                tuple(self._running.values()),
                self._schedule.waiting(now),
                self._watch.troubles,
                self._schedule.budget.spent(now),
                self._stopped.is_set(),
            )

    def _inspect_all(self, threads: ThreadPoolExecutor | None = None) -> None:
        """Inspects all tables. With ``threads``, runs start during the inspection, except during the first one.

        The first inspection must find all needs before the most urgent one is known.
        """
        for observation in self._watch.inspect_all(self._stopped.is_set):
            self._take(observation)
            if threads is not None and self._has_inspected:
                self._begin(threads, again=True)
        self._has_inspected = True
        with self._changed:
            if not self._stopped.is_set():
                self._schedule.keep(self._watch.names)
        close_clients()
        self._notify(Event("inspected", total=self._watch.count))

    def _take(self, observation: Observation) -> None:
        if observation.failure:
            _LOG.log(self._failure_level, "table %s: %s", observation.table, observation.failure)
            self._notify(Event("failed", observation.table, text=observation.failure))
            return
        with self._changed:
            self._schedule.offer(observation.table, observation.needs, clock.monotonic_s())

    def _begin(self, threads: ThreadPoolExecutor, again: bool) -> bool:
        """Starts all runs that may start now; True if there were any. ``again`` inspects tables after their runs."""
        begun = False
        while not self._stopped.is_set():
            with self._changed:
                now = clock.monotonic_s()
                job = self._schedule.next(now)
                if job is None:
                    return begun
                self._schedule.begin(job, now)
                self._running[job.table] = Run.begun(job.table, job.need.kind, job.need.reason, clock.now_ms())
            threads.submit(self._run, job, again)
            begun = True
        return begun

    def _run(self, job: Job, again: bool) -> None:
        """One run, in a thread of its own."""
        run, started = self._running[job.table], clock.monotonic_s()
        try:
            run = self._recorded(job, run, started)
        except Exception as why:  # any error must free the slot
            run = replace(run, outcome=FAILED, detail=f"{type(why).__name__}: {why}")
        finally:
            close_clients()
            with self._changed:
                self._running.pop(job.table, None)
                self._schedule.end(job, run.outcome, run.bytes_before, clock.monotonic_s(), run.detail)
                if not again:
                    self._ended.append(run)
                self._changed.notify_all()
        level = self._failure_level if run.outcome == FAILED else logging.INFO
        _LOG.log(level, "table %s: %s %s in %.1f s: %s", run.table, run.kind, run.outcome, run.seconds, run.detail)
        self._notify(Event("ended", job.table, run))
        if again and not self._stopped.is_set():
            for observation in self._watch.inspect([job.table]):
                self._take(observation)
            close_clients()

    def _recorded(self, job: Job, run: Run, started: float) -> Run:
        table = self._lake.table(job.table).logical
        runs = Runs(table.io, table.path)
        runs.record(run)
        end = started + self.settings.run_s

        def is_stopped() -> bool:
            return self._stopped.is_set() or clock.monotonic_s() > end

        work = RunContext(is_stopped, self._executor, job.most_bytes, job.may_exceed)
        done = run_action(table, job.need.kind, work)
        run = replace(run, seconds=round(clock.monotonic_s() - started, 3), **asdict(done))
        self._keep(runs, run)
        return run

    def _keep(self, runs: Runs, run: Run) -> None:
        """Records the outcome of a run. Deletes it for a run without effect, and writes nothing for a dropped table."""
        try:
            self._lake.table(run.table)
            if run.outcome in (NOTHING, WAITS):
                runs.remove(run)
            else:
                runs.record(run)
        except LakelogError as why:
            _LOG.info("table %s: its run of %s cannot be recorded: %s", run.table, run.kind, why)

    def _wait(self, seconds: float) -> None:
        """Returns when a run has ended, the optimizer was stopped, or the time is over.

        A signal handler must not take a lock, so it only sets the event, which this method checks.
        """
        with self._changed:
            self._changed.wait(max(0.01, min(_POLL_S, seconds)))

    @property
    def _failure_level(self) -> int:
        """The log level of failures; a listener already reports them to the user."""
        return logging.WARNING if self._listen is None else logging.INFO

    def _notify(self, event: Event) -> None:
        if self._listen is not None:
            self._listen(event)
