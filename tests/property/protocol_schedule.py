"""One schedule of the protocol: tasks, drivers, readers, deaths, zombies; by the numbered steps of RFC 2."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from protocol_bugs import NONE, Bug, Planted
from protocol_process import Process, Steps
from protocol_readers import (
    Eventual,
    Reader,
    SwitchedOver,
    WithoutGuarantee,
    Wrong,
    check_acknowledged,
    check_rest,
    check_step,
    head_of,
)
from protocol_records import CASES, SHARED, Case, Row, message_of, value_of
from protocol_sealing import owed, seal, tell
from protocol_transactional import Transactional, TransactionalBehindSnapshot
from protocol_world import Decision, Known, ListLog, Snapshot, World

from lakelog.errors import Fenced, Unavailable
from lakelog.logstore import healer
from lakelog.logstore.control import begin_record
from lakelog.logstore.formats import log_format
from lakelog.logstore.header import DATA, encode_header
from lakelog.logstore.healer import heal

MOST_STEPS = 3_000
"""A schedule that takes more does not come to rest; usual are 100."""


class DoesNotRest(Exception):
    """Healing goes on for ever."""


class Simulation:
    """One schedule."""

    def __init__(self, seed: int, case: Case, bug: Bug = NONE) -> None:
        self.dice = random.Random(seed)
        self.world = World(case, self.dice, faults=self.dice.choice((0.0, 0.0, 0.02)))
        self.bug = bug
        self.live: list[Process | Steps] = []
        self.readers: list[Reader] = []
        self.epochs = self.dice.randint(1, 3)
        self.fresh_input = self.dice.random() < 0.4
        self.writer = "stream"
        self.batches = self.dice.choice((0, 0, 1, 2, 3))
        self.shared = self.dice.choice((0.0, 0.6))
        self.deaths = self.steps = self.restores = 0
        self.verified: dict[str, int] = {}

    # -- processes

    def task(self, writer: str, epoch: int, rows: list[Row], out: list[tuple[str, int, list[Row]]]) -> Steps:
        def steps(attempt: str) -> Iterator[None]:
            begin, header = begin_record(writer, epoch, attempt).headers, encode_header(DATA, writer, epoch, attempt)
            try:
                self.world.append(None, None, bytes(begin))
                yield
                for part in parts:
                    self.world.append(*message_of(self.world.case, part), header)
                    yield
            except Unavailable:  # what was sent is unknown: this attempt does not count
                return
            out.append((attempt, 1 + len(parts), rows))

        size = self.dice.randint(1, 3) if self.world.case.format == "arrow" else 1
        parts = [tuple(rows[n : n + size]) for n in range(0, len(rows), size)]
        task = Steps(steps(self.world.attempt()))
        self.live.append(task)
        return task

    def run_of_query(self) -> Process:
        """A driver from its start to the end of the query, with so many tasks as it has cores this time."""
        writer, lanes = self.writer, self.dice.randint(1, 3)

        def body(me: Process) -> None:
            world, known = self.world, None
            for epoch in range(world.spark_done + 1, self.epochs):
                if known is not None and epoch in world.offsets:
                    return  # Spark: somebody else has started this batch with our checkpoint
                world.offsets.add(epoch)
                me.pause()
                if self.bug.acknowledge_first:
                    self.acknowledge(writer, epoch)
                known = self.run_epoch(me, writer, epoch, 0, known, lanes)
                me.pause()
                self.acknowledge(writer, epoch)
                me.pause()

        return self.spawn(body)

    def acknowledge(self, writer: str, epoch: int) -> None:
        """Spark notes in the checkpoint that the epoch is done."""
        check_acknowledged(self.world, writer, epoch)
        self.world.acknowledged.add((writer, epoch))
        if writer == self.writer:
            self.world.spark_done = max(self.world.spark_done, epoch)

    def batch_write(self) -> Process:
        """One of the batch writers beside the stream, with keys of its own and some that all share."""
        number, self.batches = self.batches, self.batches - 1
        return self.spawn(lambda me: self.run_epoch(me, f"batch{number}", 0, 10 * number, None, 2) and None)

    def run_epoch(
        self, me: Process, writer: str, epoch: int, base: int, known: Known | None, lanes: int
    ) -> Known | None:
        """Tasks, decide, heal, maybe seal; returns the verified offset."""
        world = self.world
        world.origins.setdefault(writer, len(world.log))
        decision = world.decisions.get((writer, epoch))
        results: list[tuple[str, int, list[Row]]] = []
        if decision is None:
            self.run_tasks(me, writer, epoch, base, results, lanes)
        # 1 decided already?
        if world.sealed(writer)[0] >= epoch:
            return None
        me.pause()
        # 2 decide
        replayed = (writer, epoch) in world.decisions
        if not replayed or (self.bug.decide_again and results):
            since = known.verified if known is not None else self.position(writer)
            rows = [row for _, _, part in results for row in part]
            attempts = frozenset(attempt for attempt, _, _ in results)
            world.decisions[writer, epoch] = Decision(attempts, rows, since, sum(n for _, n, _ in results))
            world.staged.add((writer, epoch))
            world.order += [] if replayed else [(writer, epoch)]
        decision = world.decisions[writer, epoch]
        me.pause()
        # 3 heal
        try:
            now = self.heal(me, writer, epoch, decision, known)
        except Fenced:
            world.events["fenced drivers"] += 1
            if not replayed:
                raise
            return None  # what is open behind a decision of before is healed with the next epoch
        self.rest(me)
        # 4 seal
        if writer.startswith("batch") or self.dice.random() < 0.4:
            me.pause()
            seal(world, me, writer, now, self.bug)
        return now

    def position(self, writer: str) -> int:
        sealed = self.world.sealed(writer)
        staged = sorted(e for w, e in self.world.staged if w == writer and e > sealed[0])
        if staged:
            return self.world.decisions[writer, staged[-1]].since
        return sealed[1] if sealed[0] >= 0 else self.world.origins.get(writer, 0)

    def heal(self, me: Process, writer: str, epoch: int, decision: Decision, known: Known | None) -> Known:
        world, log = self.world, ListLog(self.world, me)
        accepted = {epoch: decision.attempts}
        if known is None:
            accepted |= {e: world.decisions[w, e].attempts for w, e in world.staged if w == writer}
        since = max(decision.since, known.verified if known else world.sealed(writer)[1])
        end = log.end_offsets()[0]
        if known is None or since != decision.since or end != since + known.extra + decision.appended:
            case, form = world.case, log_format(world.case.format)
            healing = Planted(writer, accepted, case.mode, case.keyed, form, self.committed, planner=self.bug.plan)
            end = heal(log, log, 0, since + self.bug.since_error, healing)
        self.verified[writer] = max(end, self.verified.get(writer, 0))
        return Known(end, max(accepted))

    def committed(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        state = self.world.state()
        ids = {key: json.loads(key)["id"] for key in keys}
        return {k: value_of(self.world.case, i, state[i]) if i in state else None for k, i in ids.items()}

    def rest(self, me: Process) -> None:
        """Checks the whole table when nobody else is at work and nothing is open but what was healed just now."""
        if all(p is me or p.done for p in self.live) and not any(
            offset >= self.verified.get(head_of(header).writer, 0) and value is not None
            for offset, (_, value, header) in enumerate(self.world.log)
        ):
            self.world.events["looks at rest"] += 1
            check_rest(self.world)

    def run_tasks(self, me: Process, writer: str, epoch: int, base: int, results: list[Any], lanes: int) -> None:
        rows = self.input(writer, epoch, base)
        for lane in range(lanes):
            part = [row for row in rows if row[0] % lanes == lane]
            mine: list[Any] = []
            tries = [self.task(writer, epoch, part, mine)]
            if self.dice.random() < 0.15:  # a speculative copy
                self.world.events["speculative attempts"] += 1
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
        state = world.state((writer, epoch)) if world.case.keyed else {}
        rows: list[Row] = []
        for _ in range(self.dice.randint(0, 4)):
            key = base + self.dice.randint(0, 2)
            if self.shared and self.dice.random() < self.shared:
                key = self.dice.choice(SHARED)
            before = state.get(key)
            after = None if before is not None and self.dice.random() < 0.3 else self.dice.randint(0, 3)
            if before == after:
                continue
            rows.append((key, before, after))
            state.pop(key, None)
            if after is not None and world.case.keyed:
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
        driver = self.run_of_query()
        while world.spark_done < self.epochs - 1 or not driver.done:
            self.live = [p for p in self.live if not p.done]
            if self.batches and dice.random() < 0.1:
                self.batch_write()
            if driver.done and world.spark_done < self.epochs - 1:
                driver = self.run_of_query()
            process = driver if dice.random() < 0.4 else dice.choice(self.live or [driver])
            if self.deaths < 6 and dice.random() < 0.04:
                self.deaths += 1
                world.events["deaths"] += 1
                if process is driver:
                    driver = self.restart()
                else:
                    process.kill()
                continue
            self.step(process)
        while any(not p.done for p in self.live):
            self.live = [p for p in self.live if not p.done]
            self.step(dice.choice(self.live))
        self.settle_all()
        return world

    def step(self, process: Process | Steps) -> None:
        """One step of one process, perhaps one of a reader; then all that always holds is looked at."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise DoesNotRest
        process.step()
        if len(self.readers) < 4 and self.dice.random() < 0.05:
            self.readers.append(self.new_reader())
        if self.readers and self.dice.random() < 0.3:
            self.dice.choice(self.readers).step()
        check_step(self.world)

    def new_reader(self) -> Reader:
        """A reader that comes now, and begins at the end, at the beginning or anywhere."""
        end = len(self.world.log)
        start = self.dice.choice((0, end, self.dice.randint(0, end)))
        self.world.events["readers"] += 1
        kind = self.dice.choice((Eventual, WithoutGuarantee, Transactional, TransactionalBehindSnapshot, SwitchedOver))
        if kind is SwitchedOver:
            return SwitchedOver(self.world, start, self.bug.switch_at_newest)
        if issubclass(kind, Transactional):
            return kind(self.world, start, self.bug.committed)
        return kind(self.world, start)

    def restart(self) -> Process:
        """The cluster thinks the driver dead: it and its tasks are dead, or only unreachable. Another one starts.

        With its checkpoint; or with an older copy of it; or with a new one, when somebody has stopped the query.
        """
        dice, world, chance = self.dice, self.world, self.dice.random()
        for one in list(self.live):
            if dice.random() < 0.5 or chance < 0.1:
                one.kill()
        if chance < 0.1 and self.writer == "stream":
            world.events["new checkpoints"] += 1
            self.settle(self.writer, self.epochs)
            self.writer, world.spark_done, world.offsets = "anew", -1, set()
        elif chance < 0.3 and self.restores < 2:
            self.restores += 1
            world.events["older checkpoints"] += 1
            world.spark_done = dice.randint(-1, world.spark_done)
            world.offsets = {e for e in world.offsets if e <= world.spark_done}
        return self.run_of_query()

    def settle_all(self) -> None:
        """Maintenance, then every reader reads on to the end; one that shows what is committed reads all of the log."""
        batches = ((f"batch{number}", 1) for number in (1, 2, 3))
        for writer, epoch in (("stream", self.epochs), ("anew", self.epochs), *batches):
            self.settle(writer, epoch)
        check_rest(self.world)
        for reader in (*self.readers, Transactional(self.world, 0, self.bug.committed)):
            reader.read_on()
            reader.check_at_rest()

    def settle(self, writer: str, epoch: int) -> None:
        """Ends a writer for good: an empty epoch, healed, sealed; and the commit records that it owes."""
        world = self.world
        if writer not in world.origins:
            return
        decision = world.decisions.setdefault((writer, epoch), Decision(frozenset(), [], self.position(writer), 0))
        healed: list[Known] = []
        self.finish(lambda me: healed.append(self.heal(me, writer, epoch, decision, None)))
        if not healed:
            raise Wrong(f"7: the log of {writer} does not come to rest")
        waiting = [p for p in world.order if p[0] == writer and p not in world.snapshot.places]
        sealed = {**world.snapshot.sealed, writer: (epoch, healed[0].verified)}
        made = world.snapshot = Snapshot((*world.snapshot.places, *waiting), sealed)
        self.finish(lambda me: tell(world, me, owed(world, writer), made, Known(0, 0), self.bug))

    def finish(self, body: Callable[[Process], None]) -> None:
        """Runs something to its end, with a broker that works."""
        faults, self.world.faults = self.world.faults, 0.0
        process = self.spawn(body)
        while not process.done:
            process.step()
        self.world.faults = faults


@dataclass(frozen=True)
class Outcome:
    """What became of a schedule: what is wrong, how many steps it took, what happened in it, and the world."""

    wrong: tuple[str, ...]
    steps: int
    events: Counter[str]
    world: World


def run(seed: int, case: Case, bug: Bug = NONE) -> Outcome:
    """Runs a schedule to its end, or to the first thing that is wrong."""
    simulation = Simulation(seed, case, bug)
    wrong: tuple[str, ...] = ()
    try:
        with (
            patch.object(healer, "sleep", Process.sleep),
            patch.object(healer, "random_fraction", simulation.dice.random),
        ):
            simulation.run()
    except Wrong as found:
        wrong = (str(found),)
    except DoesNotRest:
        wrong = (f"7: still at work after {MOST_STEPS} steps",)
    finally:
        for process in simulation.live:
            process.kill()
    return Outcome(wrong, simulation.steps, simulation.world.events, simulation.world)


def simulate(seed: int, bug: Bug = NONE) -> Outcome:
    """Runs a schedule; every sixth seed is of the same case."""
    return run(seed, CASES[seed % len(CASES)], bug)
