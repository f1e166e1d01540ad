"""One schedule of the protocol: tasks, drivers, deaths, zombies; by the numbered steps of RFC 2."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from protocol_world import FORM, Decision, ListLog, Process, Row, Steps, World, differences, record_of

from lakelog.logstore import healer
from lakelog.logstore.control import begin_record
from lakelog.logstore.header import DATA, encode_header
from lakelog.logstore.healer import heal
from lakelog.logstore.healing import Correction, Healing

MOST_STEPS = 5_000
"""A schedule that takes more does not come to rest; usual are 100."""


class DoesNotRest(Exception):
    """Healing goes on for ever."""


Plan = Callable[[Healing, pa.Table], list[Correction]]


@dataclass(frozen=True)
class Planted(Healing):
    """The real healing with a planner of the test's own."""

    planner: Plan = Healing.plan

    def plan(self, region: pa.Table, gone: range = range(0)) -> list[Correction]:
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
        if decision.since == known and log.end_offsets()[0] == known + decision.appended:
            return known + decision.appended
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
    time_and_chance = (
        patch.object(healer, "sleep", Process.sleep),
        patch.object(healer, "random_fraction", simulation.dice.random),
    )
    try:
        with time_and_chance[0], time_and_chance[1]:
            return differences(simulation.run())
    except DoesNotRest:
        return [f"still at work after {MOST_STEPS} steps"]
    finally:
        for process in simulation.live:
            process.kill()
