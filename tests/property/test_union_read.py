"""Union reads and ``latest-full`` under random schedules: at every moment what the log and the decisions say.

A stream with attempts that die, zombies, restarts between all steps of a commit, and batch writers that commit, take
back or vanish work on one real table, beside compactions and expiry. Each writer has keys of its own: for keys of
several writers at once the protocol promises no order. Replay one schedule with ``run(seed, key, mode, path, form)``.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from changelogs import added_up, newest
from depth import Depth
from lakelog.errors import Unavailable
from lakelog.logstore.protocol.header import DATA
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log import position as log_position
from lakelog.table.log.position import headers_of
from lakelog.table.log.register import register_writer
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.read import log_view as log_moment
from lakelog.table.read import unsealed_rows as log_tail
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.table_writer import TableWriter
from log_tables import files, make

Rows = list[tuple[int, str]]
KEYED = ", primary key (id)"
STEPS = 22


class World:
    """The table, what is decided, and what is open."""

    def __init__(self, seed: int, key: str, mode: str, path: Path, form: str) -> None:
        self.dice, self.keyed = random.Random(seed), bool(key)
        self.table = make(path, f", 'log.changelog-mode' = '{mode}', 'log-store.data-format' = '{form}'", key=key)
        self.decided: list[Rows] = []
        self.open: dict[str, Rows] = {}
        self.number = 0
        self.epoch, self.results, self.zombies = 0, list[AttemptResult](), list[TaskWriter]()
        self.accepted: Rows = []
        self.committer: Committer | None = None
        self.batches: dict[str, TableWriter] = {}
        self.healed = True
        register_writer(self.table.logical, "stream")

    def some_rows(self, base: int) -> Rows:
        rows = []
        for _ in range(self.dice.randint(1, 3)):
            self.number += 1
            rows.append((base + self.dice.randint(0, 3), f"v{self.number}"))
        return rows

    # the stream

    def attempt(self) -> None:
        task = TaskWriter(self.table.logical, "stream", self.epoch, lane=0)
        rows = self.some_rows(0)
        task.write(batch(rows))
        task.flush_log()
        self.open.setdefault("stream", []).extend(rows)
        if self.dice.random() < 0.3:
            self.zombies.append(task)  # died, or only thought dead
            return
        self.results.append(task.finish())
        self.accepted += rows

    def zombie(self) -> None:
        if self.zombies and self.open.get("stream") is None and self.healed:
            self.zombies[-1].write(batch(self.some_rows(0)))
            self.healed = False  # until the next epoch is decided

    def decide(self) -> None:
        if self.committer is None or self.dice.random() < 0.3:
            self.committer = Committer(self.table.logical, "stream")
        dies = self.dice.random() < 0.2
        if dies:
            with patch.object(Committer, "_heal", side_effect=Unavailable("died")), pytest.raises(Unavailable):
                self.committer.commit(self.epoch, self.results)
            self.committer, self.healed = None, False
        else:
            self.committer.commit(self.epoch, self.results)
            self.healed = True
        self.decided.append(self.accepted)
        self.open.pop("stream", None)
        self.epoch, self.results, self.accepted = self.epoch + 1, [], []

    def seal(self) -> None:
        if self.committer is not None:
            seal(self.committer)

    # batch writers

    def begin(self) -> None:
        name = f"b{len(self.batches)}"
        self.batches[name] = self.table.writer()
        self.append(name)

    def append(self, name: str) -> None:
        rows = self.some_rows(10 * (1 + int(name[1:])))
        self.batches[name].write(batch(rows))
        self.batches[name].flush()
        self.open.setdefault(name, []).extend(rows)

    def batch_step(self) -> None:
        if not self.batches or self.dice.random() < 0.3:
            self.begin()
            return
        name = self.dice.choice(list(self.batches))
        step = self.dice.choice(["append", "commit", "abort", "close"])
        if step == "append":
            self.append(name)
        elif step == "commit":
            self.batches[name].commit()
            self.decided.append(self.open.pop(name, []))
        else:
            (self.batches[name].abort if step == "abort" else self.batches[name].close)()
            self.open.pop(name, None)
            if step == "close":
                self.batches[name] = self.table.writer()

    def tidy(self) -> None:
        self.table.compact(full=self.dice.random() < 0.5, on_spark=False)
        self.table.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")

    # what must hold

    def want(self) -> Rows:
        rows = [row for part in [*self.decided, *self.open.values()] for row in part]
        return sorted(dict(rows).items()) if self.keyed else sorted(rows)

    def check(self, step: str) -> None:
        with patch("lakelog.table.read.union_scan._FEW_ROWS", self.dice.choice([0, 20_000])):  # here, or by its tasks
            found = files(self.table, **{"read.mode": "union"})
        assert found == self.want(), f"union after {step}"
        if self.healed:
            assert self.tailed() == self.want(), f"latest-full after {step}"

    def tailed(self) -> Rows:
        tail = list(self.table.tail("latest-full", stop="latest"))
        if self.keyed:
            return sorted((number, row["name"]) for number, row in newest(tail).items())
        return sorted(added_up(tail).elements())


def batch(rows: Rows) -> pa.RecordBatch:
    numbers, names = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict({"id": pa.array(numbers, pa.int32()), "name": list(names)})


def run(seed: int, key: str, mode: str, path: Path, form: str = "debezium-json") -> None:
    """One schedule."""
    world = World(seed, key, mode, path, form)
    for _ in range(STEPS):
        name = world.dice.choices(
            ["attempt", "decide", "seal", "zombie", "batch_step", "tidy"], weights=[6, 4, 3, 2, 6, 1]
        )[0]
        getattr(world, name)()
        world.check(name)


@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
@pytest.mark.parametrize(("key", "mode"), [("", "all"), (KEYED, "all"), (KEYED, "upsert")])
def test_reads_of_both_stores_are_exact_at_every_moment(
    key: str, mode: str, form: str, tmp_path: Path, depth: Depth
) -> None:
    for seed in depth.seeds(4):
        run(seed, key, mode, tmp_path / str(seed), form)


def later(name: str) -> Any:
    """Writers are read from two records too late on."""
    real = log_moment._view

    def view(*arguments: Any) -> Any:
        found = real(*arguments)
        return replace(found, **{name: {b: o + 2 for b, o in getattr(found, name).items()}})

    return patch.object(log_moment, "_view", view)


BUGS = {
    "union begins late": later("settled"),
    "latest-full begins late": later("sealed_up_to"),
    "latest-full repeats what the snapshot has": patch.object(
        log_position.SnapshotCutover, "kept", lambda self, b, r: r
    ),
    "union counts what was decided": patch.object(
        log_tail.LogTail, "counting", lambda self, b, r, gone=None: headers_of(r)["kind"].eq(DATA).to_numpy()
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    with BUGS[bug], pytest.raises(AssertionError, match="union|latest-full"):
        for seed in range(6):
            run(seed, "", "all", tmp_path / str(seed))
