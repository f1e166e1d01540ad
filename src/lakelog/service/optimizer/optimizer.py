"""The optimizer: looks at tables every so often and runs what they need, in threads of this process or on Spark."""

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
_LOOK_S: Final = 1.0
"""A loop that waits looks at its clock this often."""


@dataclass(frozen=True)
class Event:
    """Something that happened: ``begun`` and ``ended`` runs, ``progress`` of one (buckets done and all), ``trouble``
    with a table or a catalog (``text``), ``looked`` at all tables.
    """

    kind: str
    table: str = ""
    run: Run | None = None
    done: int = 0
    total: int = 0
    text: str = ""


@dataclass(frozen=True)
class OptimizerState:
    """What an optimizer of this process does now. ``waiting``: the needs that wait, the next one first, and why.

    ``troubles``: tables that could not be looked at, and why.
    """

    tables: int
    running: tuple[Run, ...]
    waiting: tuple[Waiting, ...]
    troubles: tuple[tuple[str, str], ...]
    bytes_last_hour: int
    is_stopping: bool


class Optimizer:
    """Looks after the tables of a lake until it is stopped; any number of them may look after the same tables.

    ``listen`` is called with each event, from any thread. ``executor`` is where compactions run, None: in this process.
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
        self._has_looked = False

    def plan(self) -> tuple[Observation, ...]:
        """Looks at all tables and says what each needs; runs nothing."""
        return tuple(self._watch.look(self._stopped.is_set))

    def once(self) -> tuple[Run, ...]:
        """Looks at all tables once and runs what they need, each need once; the runs, in the order of their ends."""
        self._ended.clear()
        with ThreadPoolExecutor(self.settings.parallel, "lakelog-optimizer") as threads:
            self._look()
            while not self._stopped.is_set() and (self._begin(threads, again=False) or self._running):
                self._wait(_LOOK_S)
        return tuple(self._ended)

    def serve(self) -> None:
        """Looks and runs until ``stop``; then waits for the runs at work, which end at their next safe point."""
        with ThreadPoolExecutor(self.settings.parallel, "lakelog-optimizer") as threads:
            next_look = clock.monotonic_s()
            while not self._stopped.is_set():
                if clock.monotonic_s() >= next_look:
                    self._look(threads)
                    next_look = clock.monotonic_s() + self.settings.interval_s
                self._begin(threads, again=True)
                self._wait(min(_LOOK_S, next_look - clock.monotonic_s()))

    def stop(self) -> None:
        """Lets ``serve`` and ``once`` come to an end, from any thread or signal handler; returns at once."""
        self._stopped.set()

    def state(self) -> OptimizerState:
        """What it does now."""
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

    def _look(self, threads: ThreadPoolExecutor | None = None) -> None:
        """Looks at all tables; with ``threads``, runs go on meanwhile, unless it is the first look.

        The first one has to see all needs before the most urgent is known.
        """
        for found in self._watch.look(self._stopped.is_set):
            self._take(found)
            if threads is not None and self._has_looked:
                self._begin(threads, again=True)
        self._has_looked = True
        with self._changed:
            if not self._stopped.is_set():
                self._schedule.keep(self._watch.names)
        close_clients()
        self._say(Event("looked", total=self._watch.count))

    def _take(self, found: Observation) -> None:
        if found.trouble:
            _LOG.log(self._loud, "table %s: %s", found.table, found.trouble)
            self._say(Event("trouble", found.table, text=found.trouble))
            return
        with self._changed:
            self._schedule.offer(found.table, found.needs, clock.monotonic_s())

    def _begin(self, threads: ThreadPoolExecutor, again: bool) -> bool:
        """Begins what may begin now; whether there was anything. ``again``: tables are looked at behind their runs."""
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
        except Exception as why:  # whatever it is: the slot has to be free again
            run = replace(run, outcome=FAILED, detail=f"{type(why).__name__}: {why}")
        finally:
            close_clients()
            with self._changed:
                self._running.pop(job.table, None)
                self._schedule.end(job, run.outcome, run.bytes_before, clock.monotonic_s(), run.detail)
                if not again:
                    self._ended.append(run)
                self._changed.notify_all()
        level = self._loud if run.outcome == FAILED else logging.INFO
        _LOG.log(level, "table %s: %s %s in %.1f s: %s", run.table, run.kind, run.outcome, run.seconds, run.detail)
        self._say(Event("ended", job.table, run))
        if again and not self._stopped.is_set():
            for found in self._watch.look_at([job.table]):
                self._take(found)
            close_clients()

    def _recorded(self, job: Job, run: Run, started: float) -> Run:
        table = self._lake.table(job.table).logical
        runs = Runs(table.io, table.path)
        runs.record(run)
        self._say(Event("begun", job.table, run))
        end = started + self.settings.run_s

        def is_stopped() -> bool:
            return self._stopped.is_set() or clock.monotonic_s() > end

        def progress(done: int, total: int) -> None:
            self._say(Event("progress", job.table, run, done, total))

        work = RunContext(is_stopped, self._executor, job.most_bytes, job.may_exceed, progress)
        done = run_action(table, job.need.kind, work)
        run = replace(run, seconds=round(clock.monotonic_s() - started, 3), **asdict(done))
        self._keep(runs, run)
        return run

    def _keep(self, runs: Runs, run: Run) -> None:
        """Records how a run ended; one that did nothing is forgotten; nothing is written for a table that is gone."""
        try:
            self._lake.table(run.table)
            if run.outcome in (NOTHING, WAITS):
                runs.remove(run)
            else:
                runs.record(run)
        except LakelogError as why:
            _LOG.info("table %s: its run of %s cannot be recorded: %s", run.table, run.kind, why)

    def _wait(self, seconds: float) -> None:
        """Returns when a run has ended, it was stopped, or some time is over.

        A signal handler can take no lock, so it only sets the event; this looks at it.
        """
        with self._changed:
            self._changed.wait(max(0.01, min(_LOOK_S, seconds)))

    @property
    def _loud(self) -> int:
        """The level of what must not be missed; a listener tells it already."""
        return logging.WARNING if self._listen is None else logging.INFO

    def _say(self, event: Event) -> None:
        if self._listen is not None:
            self._listen(event)
