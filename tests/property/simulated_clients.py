"""Who works on the table of a schedule: streaming queries, batch jobs, DML, maintenance, readers; and the cluster that
starts each of them, and again when it died."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import protocol_calls as calls
import pyarrow as pa
from simulated_owner import Owner
from simulated_process import Program
from simulated_replacements import Replacements, commit_of_others
from simulated_rollbacks import Rollbacks
from simulated_rows import Row, batch_of, rows_by_key, split
from simulated_table import SimulatedTable, World

from lakelog.errors import LakelogError, NotFound
from lakelog.table.log.position import LogPosition
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from register_history import FAILED, OK, Write

_TRIES = 3
_MONTH_MS = 31 * 24 * 3_600_000


class Aborted(Exception):
    """The user's code failed during a write."""


@dataclass(eq=False)
class Query:
    """A streaming query: its table, the rows of its source, and its checkpoint."""

    table: SimulatedTable
    name: str
    epochs: int
    fresh: bool
    done: int = -1
    offsets: set[int] = field(default_factory=set)
    inputs: dict[int, list[Row]] = field(default_factory=dict)
    writes: dict[int, Write] = field(default_factory=dict)


@dataclass(eq=False)
class Follower:
    """A reader of the log, its start position, and its first snapshot."""

    table: SimulatedTable
    start: str
    is_transactional: bool
    position: LogPosition
    full: tuple[pa.RecordBatch, ...] = ()


class Clients:
    """The clients of one schedule."""

    def __init__(self, world: World) -> None:
        self.world, self.scheduler, self.dice = world, world.scheduler, world.dice
        self.keys = range(self.dice.choice((1, 2, 3, 4)))
        self.followers: list[Follower] = []
        self._cluster = Program("cluster", is_safe=True)
        self._runs = 0
        dice = self.dice
        queries = dice.choice((0, 1, 1, 1, 2))
        jobs = dice.choice((0, 1, 2, 3)) if queries else dice.choice((2, 3))
        for number in range(queries):
            self.begin(self._query_life, f"q{number}")
        for number in range(jobs):
            self.begin(self._job_life, f"b{number}")
        for number in range(dice.choice((0, 1, 1))):
            self.begin(self._maintenance_life, f"m{number}")
        for number in range(dice.choice((0, 1))):
            self.begin(self._reader_life, f"r{number}")
        owner = Owner(world, self.spawn)
        owners = dice.choice((0, 1, 2, 3)) if not world.case.replaces else dice.choice((0, 0, 0, 1, 2))
        for number in range(owners):
            self.begin(owner.life, f"o{number}")
        if world.case.replaces:
            for number in range(dice.choice((1, 2, 2, 3))):
                self.begin(Replacements(self).life, f"x{number}")
            self.begin(Replacements(self).later, "z")
        if world.case.rolls:
            for number in range(dice.choice((1, 1, 2))):
                self.begin(Rollbacks(self).life, f"u{number}")

    def begin(self, life: Callable[[str], None], name: str) -> None:
        """Starts a client soon."""

        def body() -> None:
            self.scheduler.sleep(1.2 * self.dice.random())
            life(name)

        self.scheduler.start(self._cluster, body)

    def spawn(self, name: str, *bodies: Callable[[], None]) -> Program:
        """Starts a process; it ends with the first of its threads."""
        skew = self.dice.randint(-200, 200) if self.dice.random() < 0.2 else 0
        if abs(skew) > 140:  # a clock that is a month wrong; no other random choice, which would change all schedules
            skew = _MONTH_MS if skew > 0 else -_MONTH_MS
        program = Program(name, skew)

        def ending(body: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                try:
                    body()
                except LakelogError as failure:
                    self.scheduler.note(f"fails: {type(failure).__name__}: {failure}")
                    self.scheduler.events[f"{type(failure).__name__}"] += 1
                self.scheduler.exit(program)  # the first thread that ends takes the others along

            return run

        return self.scheduler.start(program, *(ending(body) for body in bodies))

    # -- tables and rows

    def some_table(self) -> SimulatedTable:
        """A random table, existing or dropped."""
        return self.world.tables[-1] if self.dice.random() < 0.7 else self.dice.choice(self.world.tables)

    def handle(self, table: SimulatedTable) -> DynamicTable:
        """A handle of a table: an old one, or a new one by its current name. Raises NotFound."""
        name = self.world.name_of(table)
        if name is None or self.dice.random() < 0.6:
            return table.handle
        found = self.world.open(name)
        if self.world.table_of(found) is not table:
            raise NotFound(f"{name} is another table by now")
        if self.dice.random() < 0.5:
            table.handle = found
        return found

    def rows(self, write: Write, known: dict[int, int | None]) -> list[Row]:
        """Changes of some keys; ``known`` is what the client takes for their rows, for before-images."""
        world, dice, out, after = self.world, self.dice, list[Row](), dict[int, int | None]()
        for _ in range(dice.choice((1, 1, 2, 3))):
            key, value = dice.choice(self.keys), world.new_value()
            before = known.get(key)
            if not world.case.keyed:
                out.append(("+I", key, value))
                after[value] = value
            elif dice.random() < 0.25:
                out.append(("-D", key, value if before is None else before))
                after[key] = known[key] = None
            elif world.case.mode == "all" and before is not None:
                out += [("-U", key, before), ("+U", key, value)]
                after[key] = known[key] = value
            else:
                out.append(("+I", key, value))
                after[key] = known[key] = value
        write.tries[-1] |= after
        return out

    # -- streaming queries

    def _query_life(self, name: str) -> None:
        """Restarts a query until all its epochs are committed, with its checkpoint, an older copy, or a new one."""
        dice, scheduler = self.dice, self.scheduler
        query, starts = Query(self.some_table(), name, dice.randint(1, 3), dice.random() < 0.3), 0
        while query.done < query.epochs - 1 and starts < 8:
            starts += 1
            tasks: list[Program] = []
            driver = self._driver(query, tasks)
            wait_s = scheduler.lease_s * 500 * dice.random()
            scheduler.wait_until(lambda: driver.is_done or driver.stopped_until > scheduler.now + wait_s)  # noqa: B023
            for task in tasks:
                if dice.random() < 0.5:
                    scheduler.kill(task)
            chance = dice.random()
            if query.done == query.epochs - 1 or (self.world.name_of(query.table) is None and chance < 0.5):
                return
            if chance < 0.12:
                scheduler.events["new checkpoints"] += 1
                old, query = query, Query(query.table, f"{name}{starts}", query.epochs, query.fresh)
                if dice.random() < 0.5:
                    self.spawn(f"end {old.name}", partial(self._end_stream, old))
            elif chance < 0.3:
                scheduler.events["older checkpoints"] += 1
                query.done = dice.randint(-1, query.done)
                query.offsets = {e for e in query.offsets if e <= query.done}

    def _end_stream(self, query: Query) -> None:
        calls.end_stream(self.handle(query.table), query.name)

    def _driver(self, query: Query, tasks: list[Program]) -> Program:
        dice, table, history = self.dice, query.table, query.table.history
        self._runs += 1
        run = f"run{self._runs}"
        opened: list[calls.StreamCommits] = []
        waiting: list[int] = []
        failures: list[LakelogError] = []
        lanes, interval = dice.randint(1, 2), dice.choice((0.0, 0.3, 2.0))

        def main() -> None:
            handle = self.handle(table)
            commits = calls.StreamCommits(handle, query.name, run)
            opened.append(commits)
            for at, epoch in enumerate(range(query.done + 1, query.epochs)):
                if at and epoch in query.offsets:
                    return  # Spark: somebody else has started this batch with our checkpoint
                query.offsets.add(epoch)
                write = query.writes.get(epoch)
                if write is None:
                    write = query.writes[epoch] = history.invoke(f"{query.name}/{epoch}")
                if epoch not in query.inputs or query.fresh:
                    write.tries.append({})
                    query.inputs[epoch] = self.rows(write, dict(table.known))
                parts = split(query.inputs[epoch], lanes)

                def task(lane: int, rows: list[Row], epoch: int = epoch) -> AttemptResult:
                    return calls.stream_task(handle, query.name, epoch, run, lane, batch_of(self.world, handle, rows))

                results = self._run_tasks(f"{run}/{epoch}", parts, task, tasks)
                commits.commit(epoch, results)
                history.respond(write, OK)
                waiting.append(epoch)
                if failures:
                    raise failures.pop()
                self.scheduler.pause()
                query.done = max(query.done, epoch)
                self.scheduler.pause()
            if dice.random() < 0.5:
                self.scheduler.sleep(interval)
            elif dice.random() < 0.3:
                calls.seal_all(handle)

        def sealer() -> None:
            while True:
                self.scheduler.wait_until(lambda: bool(waiting))
                waiting.clear()
                self.scheduler.sleep(interval * dice.random())
                try:
                    opened[0].seal()
                except LakelogError as failure:
                    failures.append(failure)

        return self.spawn(run, main, sealer)

    def _run_tasks(
        self, name: str, parts: list[list[Row]], body: Callable[[int, list[Row]], AttemptResult], tasks: list[Program]
    ) -> list[AttemptResult]:
        """Runs a task of each part like Spark, with retries and sometimes twice. Raises LakelogError."""
        results: list[AttemptResult] = []
        for lane, rows in enumerate(parts):
            done: list[AttemptResult] = []

            def start(tries: list[Program], lane: int = lane, rows: list[Row] = rows, done: Any = done) -> None:
                number = len(tries)
                tries.append(self.spawn(f"{name}/{lane}.{number}", lambda: done.append(body(lane, rows))))
                tasks.append(tries[-1])

            tries: list[Program] = []
            start(tries)
            if self.dice.random() < 0.1:
                self.scheduler.events["speculative attempts"] += 1
                start(tries)
            while not done:
                self.scheduler.wait_until(lambda: bool(done) or all(t.is_done for t in tries))  # noqa: B023
                if not done:
                    if len(tries) > _TRIES:
                        raise LakelogError(f"task {lane} of {name} has failed too often")
                    start(tries)
            results.append(done[0])
        return results

    # -- batch jobs

    def _job_life(self, name: str) -> None:
        """Runs a batch job, and restarts it after a death or failure."""
        dice = self.dice
        kind = dice.choice((self._write_job, self._spark_job, self._change_job, self._change_job))
        for number in range(_TRIES):
            job = self.spawn(f"{name}.{number}", kind(f"{name}.{number}"))
            self.scheduler.wait_until(lambda: job.is_done or job.stopped_until > self.scheduler.now + 1000)  # noqa: B023
            if dice.random() < 0.4:
                return
            self.scheduler.sleep(dice.choice((0.0, 0.1, 1.0)) * dice.random())

    def _write_job(self, name: str) -> Callable[[], None]:
        def body() -> None:
            table = self.some_table()
            self._write(name, table, self.handle(table), dict(table.known))

        return body

    def _change_job(self, name: str) -> Callable[[], None]:
        """Runs UPDATE, DELETE or MERGE: reads the table, then writes the changes."""

        def body() -> None:
            table = self.some_table()
            handle = self.handle(table)
            found = self.read(name, table, handle)
            self._write(name, table, handle, dict(found))

        return body

    def _write(self, name: str, table: SimulatedTable, handle: DynamicTable, known: dict[int, int | None]) -> None:
        dice, history = self.dice, table.history
        writer = calls.open_writer(handle)
        open_write: Write | None = None
        is_committing = False
        try:
            with writer:
                waits = self.world.case.waits
                for at in range(dice.choice((1, 2, 3, 4) if waits else (1, 1, 2))):
                    if at:
                        is_committing = True
                        writer.commit()
                        assert open_write is not None
                        history.respond(open_write, OK)
                        is_committing = False
                        if waits and dice.random() < 0.5:
                            self.scheduler.sleep(1.5 * dice.random())
                    open_write = history.invoke(f"{name}/{at}")
                    open_write.tries.append({})
                    writer.write(batch_of(self.world, handle, self.rows(open_write, known)))
                    if dice.random() < 0.3:
                        writer.write(batch_of(self.world, handle, self.rows(open_write, known)))
                if dice.random() < 0.1:
                    raise Aborted
                is_committing = True
            history.respond(open_write, OK)  # type: ignore[arg-type]
            table.known |= {k: v for k, v in known.items() if v is not None}
        except Aborted:
            history.respond(open_write, FAILED)  # type: ignore[arg-type]
        except LakelogError as failure:
            if open_write is not None:
                history.respond(open_write, calls.outcome_of(failure) if is_committing else FAILED)
            raise

    def _spark_job(self, name: str) -> Callable[[], None]:
        def body() -> None:
            writer, table = f"job-{name}", self.some_table()
            handle, history = self.handle(table), table.history
            calls.plan_batch(handle)
            write = history.invoke(name)
            write.tries.append({})
            parts = split(self.rows(write, dict(table.known)), self.dice.randint(1, 2))
            is_committing = False
            tasks: list[Program] = []
            results: list[AttemptResult] = []
            try:
                results = self._run_tasks(
                    name,
                    parts,
                    lambda lane, rows: calls.batch_task(handle, writer, lane, batch_of(self.world, handle, rows)),
                    tasks,
                )
                is_committing = True
                calls.commit_batch(handle, writer, results, no_other_tries=len(tasks) == len(results))
            except LakelogError as failure:
                history.respond(write, calls.outcome_of(failure) if is_committing else FAILED)
                if calls.take_back_batch(handle, writer, results) and not self.world.is_dropped(table):
                    history.respond(write, FAILED)
                raise
            history.respond(write, OK)

        return body

    # -- maintenance and readers

    def _maintenance_life(self, name: str) -> None:
        dice, table = self.dice, self.some_table()
        others = partial(commit_of_others, self.world)
        chores = (calls.maintain, calls.maintain, calls.seal_all, others, others, self._expire)
        for number in range(dice.randint(1, 3)):
            chore = dice.choice(chores)
            done = self.spawn(f"{name}.{number}", partial(self._maintain, chore, table))
            self.scheduler.wait_until(lambda: done.is_done or done.stopped_until > self.scheduler.now)  # noqa: B023
            self.scheduler.sleep(self.scheduler.lease_s * dice.choice((0.02, 0.1, 1.1)) * dice.random())

    def _maintain(self, chore: Callable[[DynamicTable], object], table: SimulatedTable) -> None:
        chore(self.handle(table))

    def _reader_life(self, name: str) -> None:
        for number in range(self.dice.randint(1, 2)):
            who = f"{name}.{number}"
            if self.dice.random() < 0.5:
                done = self.spawn(who, partial(self._read_some, who))
            else:
                done = self.spawn(who, self._follow)
            self.scheduler.wait_until(lambda: done.is_done)  # noqa: B023
            self.scheduler.sleep(0.5 * self.dice.random())

    def _expire(self, handle: DynamicTable) -> None:
        calls.expire(handle, self.dice.randint(1, 2))

    def _read_some(self, who: str) -> None:
        table = self.some_table()
        self.read(who, table, self.handle(table))

    def read(self, who: str, table: SimulatedTable, handle: DynamicTable) -> dict[int, int]:
        """Runs a batch read and records it in the history; returns the rows by key, or without a key by value."""
        history = table.history
        invoked = history.tick()
        found = rows_by_key(self.world, calls.batch_read(handle))
        if not self.world.is_dropped(table):
            history.read(who, invoked, found, self.keys if self.world.case.keyed else history.keys())
        return found

    def _follow(self) -> None:
        table = self.some_table()
        start = self.dice.choice(("earliest", "latest-full", "latest-full"))
        transactional = self.dice.random() < 0.5
        handle = self.handle(table)
        if transactional:
            handle = calls.transactional(handle)
        position = calls.begin_reading(handle, start)
        full = () if position.full is None else tuple(calls.full_rows(handle, position.full[0]))
        self.followers.append(Follower(table, start, transactional, position, full))
