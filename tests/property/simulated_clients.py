"""Who works on the table of a schedule: streaming queries, batch jobs, DML, maintenance, readers; and the cluster that
starts each of them, and again when it died."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import protocol_calls as calls
import pyarrow as pa
from simulated_process import Program
from simulated_table import World

from lakelog.errors import LakelogError
from lakelog.filestore.commit_request import CommitRequest
from lakelog.spec.row_kind import ROW_KIND_COLUMN
from lakelog.table.attempt import AttemptResult
from lakelog.table.log_position import LogPosition
from lakelog.table.log_state import carried_state
from register_history import FAILED, OK, Write

Row = tuple[str, int, int]
"""Row kind, id, v."""

_TRIES = 3
_BATCH = pa.schema([("id", pa.int64()), ("v", pa.int64()), (ROW_KIND_COLUMN, pa.string())])


class Aborted(Exception):
    """The user's code has failed amid a write."""


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as a write takes them."""
    kinds, ids, values = zip(*rows, strict=True) if rows else ((), (), ())
    found = pa.RecordBatch.from_pydict({"id": ids, "v": values, ROW_KIND_COLUMN: kinds}, schema=_BATCH)
    return found.select(["id", "v"]) if set(kinds) <= {"+I"} else found


@dataclass(eq=False)
class Query:
    """A streaming query: what its source gives, and its checkpoint."""

    name: str
    epochs: int
    fresh: bool
    done: int = -1
    offsets: set[int] = field(default_factory=set)
    inputs: dict[int, list[Row]] = field(default_factory=dict)
    writes: dict[int, Write] = field(default_factory=dict)


@dataclass(eq=False)
class Follower:
    """A reader of the log that came at some moment, and where it began."""

    start: str
    is_transactional: bool
    position: LogPosition


class Clients:
    """The clients of one schedule."""

    def __init__(self, world: World) -> None:
        self.world, self.scheduler, self.dice = world, world.scheduler, world.dice
        self.keys = range(self.dice.choice((1, 2, 3, 4)))
        self.followers: list[Follower] = []
        self._known: dict[int, int] = {}
        self._cluster = Program("cluster", is_safe=True)
        self._runs = 0
        dice = self.dice
        queries = dice.choice((0, 1, 1, 1, 2))
        jobs = dice.choice((0, 1, 2, 3)) if queries else dice.choice((2, 3))
        for number in range(queries):
            self._begin(self._query_life, f"q{number}")
        for number in range(jobs):
            self._begin(self._job_life, f"b{number}")
        for number in range(dice.choice((0, 1, 1))):
            self._begin(self._maintenance_life, f"m{number}")
        for number in range(dice.choice((0, 1))):
            self._begin(self._reader_life, f"r{number}")

    def _begin(self, life: Callable[[str], None], name: str) -> None:
        def body() -> None:
            self.scheduler.sleep(1.2 * self.dice.random())
            life(name)

        self.scheduler.start(self._cluster, body)

    def _spawn(self, name: str, *bodies: Callable[[], None]) -> Program:
        skew = self.dice.randint(-200, 200) if self.dice.random() < 0.2 else 0
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

    # -- rows

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
        """Starts a query until all its epochs are done: with its checkpoint, an older copy of it, or a new one."""
        dice, scheduler = self.dice, self.scheduler
        query, starts = Query(name, dice.randint(1, 3), dice.random() < 0.3), 0
        while query.done < query.epochs - 1 and starts < 8:
            starts += 1
            tasks: list[Program] = []
            driver = self._driver(query, tasks)
            patience = scheduler.lease_s * 500 * dice.random()
            scheduler.wait_until(lambda: driver.is_done or driver.stopped_until > scheduler.now + patience)  # noqa: B023
            for task in tasks:
                if dice.random() < 0.5:
                    scheduler.kill(task)
            chance = dice.random()
            if query.done == query.epochs - 1:
                return
            if chance < 0.12:
                scheduler.events["new checkpoints"] += 1
                old, query = query, Query(f"{name}{starts}", query.epochs, query.fresh)
                if dice.random() < 0.5:
                    self._spawn(f"end {old.name}", lambda: calls.end_stream(self.world.table, old.name))  # noqa: B023
            elif chance < 0.3:
                scheduler.events["older checkpoints"] += 1
                query.done = dice.randint(-1, query.done)
                query.offsets = {e for e in query.offsets if e <= query.done}

    def _driver(self, query: Query, tasks: list[Program]) -> Program:
        world, dice, history = self.world, self.dice, self.world.history
        self._runs += 1
        run = f"run{self._runs}"
        commits = calls.StreamCommits(world.table, query.name, run)
        waiting: list[int] = []
        failures: list[LakelogError] = []
        lanes, interval = dice.randint(1, 2), dice.choice((0.0, 0.3, 2.0))

        def main() -> None:
            for at, epoch in enumerate(range(query.done + 1, query.epochs)):
                if at and epoch in query.offsets:
                    return  # Spark: somebody else has started this batch with our checkpoint
                query.offsets.add(epoch)
                write = query.writes.get(epoch)
                if write is None:
                    write = query.writes[epoch] = history.invoke(f"{query.name}/{epoch}")
                if epoch not in query.inputs or query.fresh:
                    write.tries.append({})
                    query.inputs[epoch] = self.rows(write, dict(self._known))
                parts = split(query.inputs[epoch], lanes)

                def task(lane: int, rows: list[Row], epoch: int = epoch) -> AttemptResult:
                    return calls.stream_task(world.table, query.name, epoch, lane, batch_of(rows))

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
                calls.seal_all(world.table)

        def sealer() -> None:
            while True:
                self.scheduler.wait_until(lambda: bool(waiting))
                waiting.clear()
                self.scheduler.sleep(interval * dice.random())
                try:
                    commits.seal()
                except LakelogError as failure:
                    failures.append(failure)

        return self._spawn(run, main, sealer)

    def _run_tasks(
        self, name: str, parts: list[list[Row]], body: Callable[[int, list[Row]], AttemptResult], tasks: list[Program]
    ) -> list[AttemptResult]:
        """As Spark: a task of each part, again when it failed, now and then two of one. Raises LakelogError."""
        results: list[AttemptResult] = []
        for lane, rows in enumerate(parts):
            done: list[AttemptResult] = []

            def start(tries: list[Program], lane: int = lane, rows: list[Row] = rows, done: Any = done) -> None:
                number = len(tries)
                tries.append(self._spawn(f"{name}/{lane}.{number}", lambda: done.append(body(lane, rows))))
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
        """A batch job, started again when it has died or failed."""
        dice = self.dice
        kind = dice.choice((self._write_job, self._spark_job, self._change_job, self._change_job))
        for number in range(_TRIES):
            job = self._spawn(f"{name}.{number}", kind(f"{name}.{number}"))
            self.scheduler.wait_until(lambda: job.is_done or job.stopped_until > self.scheduler.now + 1000)  # noqa: B023
            if dice.random() < 0.4:
                return
            self.scheduler.sleep(dice.choice((0.0, 0.1, 1.0)) * dice.random())

    def _write_job(self, name: str) -> Callable[[], None]:
        return lambda: self._write(name, dict(self._known))

    def _change_job(self, name: str) -> Callable[[], None]:
        """UPDATE, DELETE or MERGE: reads the table, then writes what it changes."""

        def body() -> None:
            found = self.read(name)
            self._write(name, dict(found))

        return body

    def _write(self, name: str, known: dict[int, int | None]) -> None:
        dice, history = self.dice, self.world.history
        writer = calls.open_writer(self.world.table)
        open_write: Write | None = None
        is_committing = False
        try:
            with writer:
                for at in range(dice.choice((1, 1, 2))):
                    if at:
                        is_committing = True
                        writer.commit()
                        assert open_write is not None
                        history.respond(open_write, OK)
                        is_committing = False
                    open_write = history.invoke(f"{name}/{at}")
                    open_write.tries.append({})
                    writer.write(batch_of(self.rows(open_write, known)))
                    if dice.random() < 0.3:
                        writer.write(batch_of(self.rows(open_write, known)))
                if dice.random() < 0.1:
                    raise Aborted
                is_committing = True
            history.respond(open_write, OK)  # type: ignore[arg-type]
            self._known |= {k: v for k, v in known.items() if v is not None}
        except Aborted:
            history.respond(open_write, FAILED)  # type: ignore[arg-type]
        except LakelogError as failure:
            if open_write is not None:
                history.respond(open_write, calls.outcome_of(failure) if is_committing else FAILED)
            raise

    def _spark_job(self, name: str) -> Callable[[], None]:
        world, history = self.world, self.world.history

        def body() -> None:
            writer = f"job-{name}"
            calls.plan_batch(world.table, writer)
            write = history.invoke(name)
            write.tries.append({})
            parts = split(self.rows(write, dict(self._known)), self.dice.randint(1, 2))
            is_committing = False
            tasks: list[Program] = []
            try:
                results = self._run_tasks(
                    name,
                    parts,
                    lambda lane, rows: calls.batch_task(world.table, writer, 0, lane, batch_of(rows)),
                    tasks,
                )
                is_committing = True
                calls.commit_batch(world.table, writer, results, no_other_tries=len(tasks) == len(results))
            except LakelogError as failure:
                history.respond(write, calls.outcome_of(failure) if is_committing else FAILED)
                if calls.take_back_batch(world.table, writer):
                    history.respond(write, FAILED)
                raise
            history.respond(write, OK)

        return body

    # -- maintenance and readers

    def _maintenance_life(self, name: str) -> None:
        dice, table = self.dice, self.world.table
        chores = (calls.maintain, calls.maintain, calls.seal_all, _commit_of_others)
        for number in range(dice.randint(1, 3)):
            chore = dice.choice(chores)
            done = self._spawn(f"{name}.{number}", lambda: chore(table))  # noqa: B023
            self.scheduler.wait_until(lambda: done.is_done or done.stopped_until > self.scheduler.now)  # noqa: B023
            self.scheduler.sleep(self.scheduler.lease_s * dice.choice((0.02, 0.1, 1.1)) * dice.random())

    def _reader_life(self, name: str) -> None:
        for number in range(self.dice.randint(1, 2)):
            who = f"{name}.{number}"
            if self.dice.random() < 0.5:
                done = self._spawn(who, lambda: self.read(who) and None)  # noqa: B023
            else:
                done = self._spawn(who, self._follow)
            self.scheduler.wait_until(lambda: done.is_done)  # noqa: B023
            self.scheduler.sleep(0.5 * self.dice.random())

    def read(self, who: str) -> dict[int, int]:
        """A batch read, noted in the history; the rows by key, or without one each value by itself."""
        invoked = self.world.history.tick()
        found = rows_by_key(self.world, calls.batch_read(self.world.table))
        history = self.world.history
        history.read(who, invoked, found, self.keys if self.world.case.keyed else history.keys())
        return found

    def _follow(self) -> None:
        start = self.dice.choice(("earliest", "latest-full", "latest-full"))
        transactional = self.dice.random() < 0.5
        table = self.world.transactional if transactional else self.world.table
        self.followers.append(Follower(start, transactional, calls.begin_reading(table, start)))


def split(rows: list[Row], lanes: int) -> list[list[Row]]:
    """The rows of each task: all changes of a key are of one."""
    return [[row for row in rows if row[1] % lanes == lane] for lane in range(lanes)]


def rows_by_key(world: World, found: pa.Table) -> dict[int, int]:
    """The rows of a read by key, without one by value. Raises AssertionError for a row that comes twice."""
    column = "id" if world.case.keyed else "v"
    rows = list(zip(found.column(column).to_pylist(), found.column("v").to_pylist(), strict=True))
    assert len(dict(rows)) == len(rows), f"a read finds a row twice: {sorted(rows)}"
    return dict(rows)


def _commit_of_others(table: Any) -> None:
    """A commit of a compaction, which carries the state of the log on, or of another engine, which does not."""
    carries = table.store.latest_snapshot() is not None
    table.store.commit(
        CommitRequest(
            "others", 0, "COMPACT", allow_empty=True, first_try=True,
            prepare=(lambda latest: carried_state(table.store, latest)) if carries else None,
        )
    )  # fmt: skip
