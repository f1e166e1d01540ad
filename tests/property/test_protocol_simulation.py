"""The whole protocol of RFC 2 under a seeded scheduler: tasks, drivers, crashes anywhere, zombies, two drivers at once.

The real header, format, planning and healing code (``heal`` itself) runs against a log that is a plain list. Every process is a
thread that runs only while the scheduler lets it; it gives way at each record that it appends, each look at the log and each
durable step. There it may be killed, or left behind as a zombie that goes on after its successor has started. At the end, when
all is decided, the log must equal the files. Replay one schedule with ``simulate(seed, "all", True)``.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import CommitConflict, Fenced
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogReader, PendingAppend, Records
from lakelog.logstore.control import begin_record
from lakelog.logstore.formats import log_format
from lakelog.logstore.header import CORRECTION, DATA, decode_header, encode_header
from lakelog.logstore.healer import heal
from lakelog.logstore.healing import Correction, Healing
from lakelog.spec.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

FORM = log_format("debezium-json")
ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())])
Row = tuple[int, int | None, int | None]
"""A change: key, value before, value after."""


MOST_STEPS = 5_000
"""A schedule that takes more does not come to rest; usual are 100."""


class DoesNotRest(Exception):
    """Healing goes on for ever."""


class Killed(BaseException):
    """Ends a process at the place where it waits."""


class Process:
    """A thread that runs one step at a time."""

    def __init__(self, body: Callable[[Process], None]) -> None:
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self.done, self.killed, self.failure = False, False, None
        self._body, self._ready = body, lambda: True
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.killed:
                self._body(self)
        except (Killed, Fenced, CommitConflict):
            pass
        except BaseException as failure:  # noqa: BLE001 - told to the test by the scheduler
            self.failure = failure
        self.done = True
        self._back.release()

    def pause(self) -> None:
        """Gives way, at a place where the process may be killed."""
        self._back.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Gives way until something holds."""
        self._ready = ready
        self.pause()

    def step(self) -> None:
        if self.done or not (self.killed or self._ready()):
            return
        self._ready = lambda: True
        self._go.release()
        self._back.acquire()
        if self.failure is not None:
            raise self.failure

    def kill(self) -> None:
        self.killed = True
        self.step()


class Steps:
    """A process that is a generator: cheaper, for tasks."""

    def __init__(self, steps: Iterator[None]) -> None:
        self._steps, self.done = steps, False

    def step(self) -> None:
        self.done = self.done or next(self._steps, self) is self

    def kill(self) -> None:
        self.done = True


@dataclass
class Decision:
    """An epoch record."""

    attempts: frozenset[str]
    rows: list[Row]
    since: int
    appended: int


@dataclass
class World:
    """What is durable: the log of one bucket, decisions, the snapshot's state, Spark's checkpoint."""

    mode: str
    keyed: bool
    dice: random.Random
    log: list[tuple[bytes | None, bytes | None, bytes]] = field(default_factory=list)
    decisions: dict[tuple[str, int], Decision] = field(default_factory=dict)
    staged: set[tuple[str, int]] = field(default_factory=set)
    sealed: dict[str, tuple[int, int]] = field(default_factory=dict)
    order: list[tuple[str, int]] = field(default_factory=list)
    spark_done: int = -1
    offsets: set[int] = field(default_factory=set)
    inputs: dict[tuple[str, int], list[Row]] = field(default_factory=dict)
    attempts: int = 0

    def state(self, before: tuple[str, int] | None = None) -> dict[int, int]:
        """The rows of the files by key."""
        out: dict[int, int] = {}
        for place in self.order:
            if place == before:
                break
            for key, _, after in self.decisions[place].rows:
                out.pop(key, None)
                if after is not None:
                    out[key] = after
        return out

    def attempt(self) -> str:
        self.attempts += 1
        return f"{self.attempts:016x}"


@lru_cache(maxsize=None)
def record_of(mode: str, keyed: bool, row: Row) -> tuple[bytes | None, bytes]:
    """Key and value of a change, as the real format writes them."""
    key, before, after = row
    kinds, values = [], []
    if before is not None:
        kinds.append(DELETE if after is None else UPDATE_BEFORE)
        values.append(before)
    if after is not None:
        kinds.append(INSERT if before is None else UPDATE_AFTER)
        values.append(after)
    batch = pa.RecordBatch.from_pydict({"id": [key] * len(values), "v": values}, schema=ROWS)
    records, _ = FORM.encode(batch, np.array(kinds, np.int8), mode, ["id"] if keyed else [], b"")
    (one_key,), (value,) = records.keys.to_pylist(), records.values.to_pylist()
    return one_key, value


class _Offsets(PendingAppend):
    def __init__(self, offsets: list[int]) -> None:
        self._offsets = offsets

    def offsets(self) -> pa.Int64Array:
        return pa.array(self._offsets, pa.int64())


class ListLog(LogAppender, LogReader):
    """The log of one process's view; gives way at every step."""

    def __init__(self, world: World, process: Process) -> None:
        self.world, self.process = world, process

    def append(self, bucket: int, records: Records) -> PendingAppend:
        offsets = []
        headers = [records.headers] * len(records) if isinstance(records.headers, bytes) else records.headers
        for key, value, header in zip(records.keys.to_pylist(), records.values.to_pylist(), headers, strict=True):
            offsets.append(len(self.world.log))
            self.world.log.append((key, value, header))
            self.process.pause()
        return _Offsets(offsets)

    def flush(self) -> None:
        self.process.pause()

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 5) -> pa.Table:
        part = self.world.log[start : min(len(self.world.log) if end is None else end, start + max_records)]
        keys, values, headers = (list(c) for c in zip(*part, strict=True)) if part else ([], [], [])
        columns = [list(range(start, start + len(part))), [0] * len(part), keys, values, headers]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, RECORDS_SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=RECORDS_SCHEMA)

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        end = len(self.world.log)
        self.process.pause()
        return {0: end}

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return {0: 0}

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        raise NotImplementedError

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        raise NotImplementedError

    def close(self) -> None: ...


Plan = Callable[[Healing, pa.Table], list[Correction]]


@dataclass(frozen=True)
class Planted(Healing):
    """The real healing with a planner of the test's own."""

    planner: Plan = Healing.plan

    def plan(self, region: pa.Table) -> list[Correction]:
        return self.planner(self, region)


class Simulation:
    """One schedule."""

    def __init__(self, seed: int, mode: str, keyed: bool, plan: Plan = Healing.plan, since_error: int = 0) -> None:
        self.dice = random.Random(seed)
        self.world = World(mode, keyed, self.dice)
        self.plan, self.since_error = plan, since_error
        self.live: list[Process | Steps] = []
        self.epochs = self.dice.randint(1, 3)
        self.fresh_input = self.dice.random() < 0.4

    # -- processes

    def task(self, writer: str, epoch: int, rows: list[Row], out: list[tuple[str, int, list[Row]]]) -> Steps:
        def steps(attempt: str) -> Iterator[None]:
            begin, header = begin_record(writer, epoch, attempt).headers, encode_header(DATA, writer, epoch, attempt)
            self.world.log.append((None, None, bytes(begin)))
            yield
            for row in rows:
                self.world.log.append((*record_of(self.world.mode, self.world.keyed, row), header))
                yield
            out.append((attempt, 1 + len(rows), rows))

        task = Steps(steps(self.world.attempt()))
        self.live.append(task)
        return task

    def run_of_query(self, writer: str, base: int, epochs: int) -> Process:
        """A driver from its start to the end of the query."""

        def body(me: Process) -> None:
            world, known = self.world, None
            for epoch in range(world.spark_done + 1, epochs):
                if known is not None and epoch in world.offsets:
                    return  # Spark: somebody else has started this batch with our checkpoint
                world.offsets.add(epoch)
                me.pause()
                known = self.run_epoch(me, writer, epoch, base, known)
                me.pause()
                world.spark_done = max(world.spark_done, epoch)
                me.pause()

        return self.spawn(body)

    def batch_write(self, writer: str, base: int) -> Process:
        return self.spawn(lambda me: self.run_epoch(me, writer, 0, base, None) and None)

    def run_epoch(self, me: Process, writer: str, epoch: int, base: int, known: int | None) -> int | None:
        """Tasks, decide, heal, maybe seal; returns the verified offset."""
        world = self.world
        start = len(world.log) if writer not in world.sealed and (writer, 0) not in world.decisions else None
        decision = world.decisions.get((writer, epoch))
        results: list[tuple[str, int, list[Row]]] = []
        if decision is None:
            self.run_tasks(me, writer, epoch, base, results)
        # 1 decided already?
        if world.sealed.get(writer, (-1, 0))[0] >= epoch:
            return None
        me.pause()
        # 2 decide
        if (writer, epoch) not in world.decisions:
            since = known if known is not None else self.position(writer, start)
            rows = [row for _, _, part in results for row in part]
            attempts = frozenset(attempt for attempt, _, _ in results)
            world.decisions[writer, epoch] = Decision(attempts, rows, since, sum(n for _, n, _ in results))
            world.staged.add((writer, epoch))
            world.order.append((writer, epoch))
        decision = world.decisions[writer, epoch]
        me.pause()
        # 3 heal
        verified = self.heal(me, writer, epoch, decision, known)
        # 4 seal
        if self.dice.random() < 0.4:
            me.pause()
            if world.sealed.get(writer, (-1, 0))[0] < epoch:
                world.sealed[writer] = (epoch, verified)
            me.pause()
            world.staged -= {(writer, e) for e in range(epoch + 1)}
        return verified

    def position(self, writer: str, start: int | None) -> int:
        staged = sorted(
            e for w, e in self.world.staged if w == writer and e > self.world.sealed.get(writer, (-1, 0))[0]
        )
        if staged:
            return self.world.decisions[writer, staged[-1]].since
        if writer in self.world.sealed:
            return self.world.sealed[writer][1]
        return 0 if writer == "stream" else start or 0

    def heal(self, me: Process, writer: str, epoch: int, decision: Decision, known: int | None) -> int:
        world, log = self.world, ListLog(self.world, me)
        accepted = {epoch: decision.attempts}
        if known is None:
            accepted |= {e: world.decisions[w, e].attempts for w, e in world.staged if w == writer}
        sealed = world.sealed.get(writer, (-1, 0))
        since = max(decision.since, known or 0, sealed[1] if sealed[0] < epoch else 0) + self.since_error
        if known is not None and log.end_offsets()[0] == since + decision.appended:
            return since + decision.appended
        healing = Planted(writer, accepted, world.mode, world.keyed, FORM, self.committed, self.plan)
        return heal(log, log, 0, since, healing)

    def committed(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        state = self.world.state()
        ids = {key: json.loads(key)["id"] for key in keys}
        return {k: record_of("upsert", True, (i, None, state[i]))[1] if i in state else None for k, i in ids.items()}

    def run_tasks(self, me: Process, writer: str, epoch: int, base: int, results: list[Any]) -> None:
        rows = self.input(writer, epoch, base)
        for lane in range(2):
            part = [row for row in rows if row[0] % 2 == lane]
            mine: list[Any] = []
            tries = [self.task(writer, epoch, part, mine)]
            if self.dice.random() < 0.15:  # a speculative copy
                tries.append(self.task(writer, epoch, part, mine))
            while not mine:
                me.wait_until(lambda: bool(mine) or all(task.done for task in tries))  # noqa: B023 - called at once
                if not mine:
                    tries.append(self.task(writer, epoch, part, mine))
            results.append(mine[0])

    def input(self, writer: str, epoch: int, base: int) -> list[Row]:
        """What the source gives for an epoch: a changelog that goes on from the files; not always the same twice."""
        world = self.world
        if (writer, epoch) in world.inputs and not self.fresh_input:
            return world.inputs[writer, epoch]
        state = world.state((writer, epoch)) if world.keyed else {}
        rows: list[Row] = []
        for _ in range(self.dice.randint(0, 4)):
            key = base + self.dice.randint(0, 2)
            before = state.get(key)
            after = None if before is not None and self.dice.random() < 0.3 else self.dice.randint(0, 3)
            if before == after:
                continue
            rows.append((key, before, after))
            state.pop(key, None)
            if after is not None and world.keyed:
                state[key] = after
        world.inputs[writer, epoch] = rows
        return rows

    # -- the scheduler

    def spawn(self, body: Callable[[Process], None]) -> Process:
        process = Process(body)
        self.live.append(process)
        return process

    def run(self) -> World:
        """Runs until all epochs are decided, then lets zombies run out, then heals once more as maintenance does."""
        dice, world = self.dice, self.world
        if dice.random() < 0.3:
            self.batch_write("batch", 10)
        driver = self.run_of_query("stream", 0, self.epochs)
        deaths = steps = 0
        while world.spark_done < self.epochs - 1 or not driver.done:
            steps += 1
            if steps > MOST_STEPS:
                raise DoesNotRest
            self.live = [p for p in self.live if not p.done]
            if driver.done and world.spark_done < self.epochs - 1:
                driver = self.run_of_query("stream", 0, self.epochs)
            process = driver if dice.random() < 0.4 else dice.choice(self.live or [driver])
            if deaths < 6 and dice.random() < 0.04:
                deaths += 1
                if process is not driver:
                    process.kill()
                    continue
                # the cluster thinks the driver dead: it and its tasks are dead, or only unreachable
                for one in list(self.live):
                    if dice.random() < 0.5:
                        one.kill()
                driver = self.run_of_query("stream", 0, self.epochs)
                continue
            process.step()
        while any(not p.done for p in self.live):
            self.live = [p for p in self.live if not p.done]
            steps += 1
            if steps > MOST_STEPS:
                raise DoesNotRest
            dice.choice(self.live).step()
        self.settle("stream", self.epochs)
        self.settle("batch", 1)
        return world

    def settle(self, writer: str, epoch: int) -> None:
        """Maintenance: an empty epoch, healed to the end."""
        if not any(w == writer for w, _ in self.world.decisions) and not any(
            f"|{writer}|".encode() in h for _, _, h in self.world.log
        ):
            return
        known = self.position(writer, 0)
        decision = Decision(frozenset(), [], known, 0)
        self.world.decisions.setdefault((writer, epoch), decision)
        done = self.spawn(lambda me: self.heal(me, writer, epoch, decision, None) and None)
        while not done.done:
            done.step()


def simulate(seed: int, mode: str, keyed: bool, plan: Plan = Healing.plan, since_error: int = 0) -> list[str]:
    """Runs a schedule; returns what is wrong at its end."""
    simulation = Simulation(seed, mode, keyed, plan, since_error)
    try:
        return differences(simulation.run())
    except DoesNotRest:
        return [f"still at work after {MOST_STEPS} steps"]
    finally:
        for process in simulation.live:
            process.kill()


def differences(world: World) -> list[str]:
    """Compares the log, read by a consumer that knows debezium-json only, with the files."""
    net: Counter[tuple[int, int]] = Counter()
    folded: dict[int, int] = {}
    for _, value, _ in world.log:
        if value is None:
            continue
        change = json.loads(value)
        before, after = change["before"], change["after"]
        if before is not None:
            net[before["id"], before["v"]] -= 1
            if change["op"] == "d":
                folded.pop(before["id"], None)
        if after is not None:
            net[after["id"], after["v"]] += 1
            folded[after["id"]] = after["v"]
    files: Counter[tuple[int, int]] = Counter()
    for place in world.order:
        for key, before, after in world.decisions[place].rows:
            files[key, -1 if before is None else before] -= before is not None
            files[key, -1 if after is None else after] += after is not None
    wrong = []
    if world.mode == "all" and {k: n for k, n in net.items() if n} != {k: n for k, n in files.items() if n}:
        wrong.append(f"net rows {dict(net)} are not the files {dict(files)}")
    if world.keyed and folded != world.state():
        wrong.append(f"fold by key {folded} is not the files {world.state()}")
    return wrong


CASES = [("all", True), ("all", False), ("upsert", True)]


@pytest.mark.parametrize("seeds", [range(350), range(350, 700)], ids=lambda seeds: f"from {seeds[0]}")
@pytest.mark.parametrize(("mode", "keyed"), CASES)
def test_the_log_ends_equal_to_the_decisions_whatever_dies(mode: str, keyed: bool, seeds: range) -> None:
    for seed in seeds:
        assert simulate(seed, mode, keyed) == [], f"seed {seed}"


def naive(healing: Healing, region: pa.Table) -> list[Correction]:
    """Takes back every refused row that no correction names; never looks at corrections themselves."""
    named, refused = set(), []
    for row in region.to_pylist():
        head = decode_header(row["header"], row["offset"])
        if head.writer != healing.writer:
            continue
        if head.kind == CORRECTION:
            named.add(head.ref)
        elif head.kind == DATA and head.attempt not in healing.accepted.get(head.epoch, frozenset()):
            refused.append((row, head))
    return [
        Correction(row["offset"], -1, head.epoch, head.attempt, row["key"], FORM.inverse(row["value"]))
        for row, head in reversed(refused)
        if row["offset"] not in named
    ]


def oldest_first(healing: Healing, region: pa.Table) -> list[Correction]:
    return Healing.plan(healing, region)[::-1]


def without_last_state(healing: Healing, region: pa.Table) -> list[Correction]:
    return Healing.plan(replace(healing, keyed=False, planner=Healing.plan), region)


def is_found(keyed: bool, plan: Plan = Healing.plan, since_error: int = 0) -> bool:
    return any(simulate(seed, "all", keyed, plan, since_error) for seed in range(100))


def without_fence(healing: Healing, region: pa.Table) -> list[Correction]:
    """A driver of the past takes the rows of later epochs for refused ones."""
    return Healing.plan(
        replace(healing, accepted={10**6: frozenset(), **healing.accepted}, planner=Healing.plan), region
    )


@pytest.mark.parametrize(
    ("bug", "keyed"), [(naive, False), (naive, True), (oldest_first, True), (without_last_state, True)]
)
def test_a_planted_bug_is_found(bug: Plan, keyed: bool) -> None:
    assert is_found(keyed, bug)


@pytest.mark.parametrize("error", [-1, 1])
def test_a_region_that_begins_one_record_off_is_found(error: int) -> None:
    assert is_found(False, since_error=error)


def test_a_driver_of_the_past_that_is_not_fenced_off_is_found() -> None:
    assert any(simulate(seed, "all", False, without_fence) for seed in range(600))
