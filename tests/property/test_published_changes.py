"""Logs with ``log.content`` = changes: random writes and statements, and a publisher that dies, or stalls while others
publish, at any of its steps. At rest the log adds up to the files for every reader, whatever the merge engine."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from depth import Depth
from faults import Died
from lakelog import connect
from lakelog.errors import CommitUnknown, LakelogError
from lakelog.lake.table import Table
from lakelog.logstore.base import LogAppender, PendingAppend, Records
from lakelog.table.maintenance import publish
from lakelog.table.maintenance.publish import Publication
from lakelog.table.model.partition_selection import overwrite_target
from lakelog.table.model.published_links import PublishedLink, PublishedLinks
from lakelog.table.write.overwrite import OverwriteWriter

Row = tuple[Any, ...]

ENGINES = {
    "sum": "'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum', "
    "'fields.v.aggregate-function' = 'max', 'fields.v.ignore-retract' = 'true'",
    "list": "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'listagg'",
    "partial": "'merge-engine' = 'partial-update'",
    "groups": "'merge-engine' = 'partial-update', 'fields.n.sequence-group' = 'v'",
    "first": "'merge-engine' = 'first-row'",
    "newest": "'sequence.field' = 'n'",
    "plain": "'log.content' = 'changes'",
    "vectors": "'log.content' = 'changes', 'deletion-vectors.enabled' = 'true'",
    "lookup": "'log.content' = 'changes', 'changelog-producer' = 'lookup'",
    "full compaction": "'log.content' = 'changes', 'changelog-producer' = 'full-compaction'",
    "input": "'log.content' = 'changes', 'changelog-producer' = 'input'",
    "sum by lookup": "'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum', "
    "'fields.v.aggregate-function' = 'max', 'fields.v.ignore-retract' = 'true', 'changelog-producer' = 'lookup'",
    "groups by full compaction": "'merge-engine' = 'partial-update', 'fields.n.sequence-group' = 'v', "
    "'changelog-producer' = 'full-compaction'",
}
"""The options of tables with a key (p, id) and the columns n and v."""
DELETES = {*ENGINES} - {"list", "partial", "first"}
"""Those that take rows of kind -D."""
MODES = ("all", "upsert")
FORMATS = ("debezium-json", "arrow")
STEPS = 12


def make(directory: Path, options: str, key: str = ", primary key (p, id)", buckets: str = "'bucket' = '2'") -> Table:
    lake = connect(warehouse=str(directory / "warehouse"))
    lake.sql(
        f"create table db.t (p int, id int, n int, v string{key}) using lakelog partitioned by (p) tblproperties "
        f"('log-store.enabled' = 'true', 'snapshot.num-retained.min' = '1', {buckets}, {options})"
    )
    return lake.table("db.t")


def rows(chance: random.Random, has_deletes: bool, is_complete: bool = True) -> pa.Table:
    count = chance.randint(1, 8)
    optional = [] if is_complete else [None]
    found = pa.table(
        {
            "p": pa.array([chance.randint(0, 1) for _ in range(count)], pa.int32()),
            "id": pa.array([chance.randint(0, 5) for _ in range(count)], pa.int32()),
            "n": pa.array([chance.choice([*optional, *range(20)]) for _ in range(count)], pa.int32()),
            "v": pa.array([chance.choice([*optional, "a", "b", "c"]) for _ in range(count)]),
        }
    )
    if not has_deletes:
        return found
    return found.append_column("_row_kind", pa.array([chance.choice(["+I", "+U", "-D"]) for _ in range(count)]))


@dataclass
class Process:
    """What happens at the steps of publishers: they die, are told nothing, or stall while another one runs."""

    table: Table
    chance: random.Random
    rate: float = 0.15
    depth: int = 0
    is_calm: bool = False
    seen: Counter[str] = field(default_factory=Counter)

    def step(self) -> None:
        if self.is_calm or self.chance.random() > self.rate:
            return
        if self.depth < 2 and self.chance.random() < 0.6:
            self.depth += 1
            self.seen["stalled"] += 1
            try:
                with contextlib.suppress(Died, LakelogError):
                    if self.chance.random() < 0.5:
                        write(self.table, self.chance, has_deletes=False)
                    Publication(self.table.logical).run()
            finally:
                self.depth -= 1
            return
        self.seen["died"] += 1
        raise Died


class Appender:
    """An appender whose process may die, or stall, around each call."""

    def __init__(self, real: LogAppender, process: Process) -> None:
        self.real, self.process = real, process

    def append(self, bucket: int, records: Records) -> PendingAppend:
        self.process.step()
        return self.real.append(bucket, records)

    def append_all(self, parts: Any) -> list[PendingAppend]:
        self.process.step()
        return self.real.append_all(parts)

    def flush(self) -> None:
        self.process.step()
        self.real.flush()
        self.process.step()


def trouble(monkeypatch: pytest.MonkeyPatch, process: Process) -> None:
    """Lets the publishers of this test meet ``process`` at each step that others can see."""
    real_appender, real_create = publish.appender_of, PublishedLinks.create

    def appender_of(*given: Any) -> Any:
        return Appender(real_appender(*given), process)

    def create(links: PublishedLinks, link: PublishedLink) -> bool:
        process.step()
        made = real_create(links, link)
        process.step()
        if not process.is_calm and process.chance.random() < 0.1:
            raise CommitUnknown("the answer is lost")
        return made

    @contextlib.contextmanager
    def publishing(table: Any) -> Iterator[Publication]:
        yield Publication(table)  # without a lease, which would keep the others away

    monkeypatch.setattr(publish, "appender_of", appender_of)
    monkeypatch.setattr(publish, "publishing", publishing)
    monkeypatch.setattr(PublishedLinks, "create", create)


def write(table: Table, chance: random.Random, has_deletes: bool, is_complete: bool = True) -> None:
    table.write(rows(chance, has_deletes, is_complete))


def files(table: Table) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


class Fold:
    """What a consumer of a log knows: the net count of every row, and the newest row of each key."""

    def __init__(self) -> None:
        self.net: Counter[Row] = Counter()
        self.newest: dict[Row, Row] = {}
        self.is_exact = True

    def add(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            kind = row.pop("_row_kind")
            values = tuple(row.values())
            self.net[values] += 1 if kind in ("+I", "+U") else -1
            if kind in ("+I", "+U"):
                self.newest[values[:2]] = values
            elif kind == "-D":
                self.newest.pop(values[:2], None)
            self.is_exact &= self.net[values] >= 0

    @staticmethod
    def of(batches: Any) -> Fold:
        out = Fold()
        for batch in batches:
            out.add(batch)
        return out

    @property
    def left(self) -> Counter[Row]:
        return Counter({row: count for row, count in self.net.items() if count})


def check(table: Table, mode: str, keyed: bool, began: list[Any]) -> None:
    """Every reader of the log ends with the rows of the files."""
    wanted = files(table)
    for consistency in ("eventual", "transactional"):
        options = {"log.consistency": consistency}
        starts: list[Any] = ["earliest", "latest-full", *began]
        for start in starts:
            if isinstance(start, dict) and start.get("consistency", "eventual") != consistency:
                continue
            found = Fold.of(table.tail(start, stop="latest", options=options))
            if keyed:
                assert sorted(found.newest.values(), key=repr) == sorted(wanted, key=repr), (consistency, start)
            if mode == "all":
                assert found.left == wanted, (consistency, start)
                assert consistency == "eventual" or found.is_exact
        if mode == "upsert":
            normal = {**options, "log.consumer.normalize": "true"}
            found = Fold.of(table.tail("latest-full", stop="latest", options=normal))
            assert found.left == wanted and found.is_exact
    assert (
        Counter(tuple(r.values()) for r in table.scan(options={"read.mode": "union"}).to_arrow().to_pylist()) == wanted
    )


class World:
    """One table and random uses of it."""

    def __init__(self, table: Table, chance: random.Random, process: Process, name: str, keyed: bool) -> None:
        self.table, self.chance, self.process, self.name, self.keyed = table, chance, process, name, keyed
        self.began: list[Fold] = []
        self.tails: list[Any] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            action = self.chance.choices(list(self.actions), [w for _, w in self.actions.values()])[0]
            with contextlib.suppress(Died):
                self.actions[action][0]()

    @property
    def actions(self) -> dict[str, tuple[Callable[[], Any], int]]:
        table, chance = self.table, self.chance
        return {
            "write": (self._write, 8),
            "compact": (lambda: table.compact(full=chance.random() < 0.5), 2),
            "overwrite": (self._overwrite, 1),
            "truncate": (lambda: table.truncate(), 1),
            "drop": (lambda: table.drop_partitions([{"p": 0}], if_exists=True), 1),
            "roll back": (self._roll_back, 1),
            "expire": (lambda: table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s"), 1),
            "publish": (lambda: publish.publish(table.logical), 3),
            "follow": (self._follow, 1),
        }

    def _write(self) -> None:
        write(
            self.table,
            self.chance,
            self.keyed and self.name in DELETES,
            not self.name.startswith(("partial", "groups")),
        )

    def _overwrite(self) -> None:
        target = overwrite_target(self.table.logical, None if self.chance.random() < 0.5 else {"p": 1})
        with OverwriteWriter(self.table.logical, target) as writer:
            given = rows(self.chance, has_deletes=False)
            writer.write(given.set_column(0, given.schema.field(0), pa.array([1] * given.num_rows, pa.int32())))

    def _roll_back(self) -> None:
        chain = self.table.logical.store.snapshots.chain_ids()
        if chain:
            with contextlib.suppress(LakelogError):
                self.table.rollback_to(self.chance.choice(chain[-4:]))

    def _follow(self) -> None:
        """A reader begins here, and reads on at the end."""
        tail = self.table.tail("latest-full", stop="latest")
        found = Fold.of(tail)
        self.began.append(found)
        self.tails.append(tail.position)

    def rest(self, mode: str) -> None:
        self.process.is_calm = True
        publish.publish(self.table.logical)
        assert not publish.publish(self.table.logical)
        check(self.table, mode, self.keyed, [])
        for found, position in zip(self.began, self.tails, strict=True):
            for batch in self.table.tail(position, stop="latest"):
                found.add(batch)
            if self.keyed:
                assert sorted(found.newest.values(), key=repr) == sorted(files(self.table), key=repr)
            if mode == "all":
                assert found.left == files(self.table)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("mode", MODES)
def test_the_log_of_every_merge_engine_adds_up_to_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: Depth, name: str, mode: str
) -> None:
    for seed in depth.seeds(10):
        form = FORMATS[seed % len(FORMATS)]
        options = f"{ENGINES[name]}, 'log.changelog-mode' = '{mode}', 'log-store.data-format' = '{form}'"
        if name in ("partial", "first"):
            options += ", 'ignore-delete' = 'true'"
        run(monkeypatch, make(tmp_path / str(seed), options), seed, name, mode)


@pytest.mark.parametrize("buckets", ["'bucket' = '2', 'bucket-key' = 'id'", "'bucket' = '-1'"])
def test_the_log_of_a_table_without_a_key_adds_up_to_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: Depth, buckets: str
) -> None:
    for seed in depth.seeds(10):
        form = FORMATS[seed % len(FORMATS)]
        options = f"'log.content' = 'changes', 'log-store.data-format' = '{form}'"
        run(monkeypatch, make(tmp_path / str(seed), options, key="", buckets=buckets), seed, "", "all")


def run(monkeypatch: pytest.MonkeyPatch, table: Table, seed: int, name: str, mode: str) -> None:
    chance = random.Random(f"{seed}{name}{mode}")
    process = Process(table, chance)
    with monkeypatch.context() as patched:
        trouble(patched, process)
        world = World(table, chance, process, name, keyed=bool(name))
        world.run(STEPS)
        world.rest(mode)
