"""The changes between two snapshots are exactly the difference of their rows, after any history of the table."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from depth import Depth
from lakelog import connect
from lakelog.filestore.read import transitions
from lakelog.lake import Lake
from lakelog.table.maintenance.state_changes import state_changes
from lakelog.table.model.dynamic_table import DynamicTable

KEYS: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("a int", ("a",)), ("a string", ("a",)), ("a int, b string", ("a", "b")), ("a bigint, b int", ("a", "b")),
    ("a double", ("a",)), ("a decimal(30, 2)", ("a",)), ("a date", ("a",)),
)  # fmt: skip
OPTIONS: Final[Sequence[Mapping[str, str]]] = (
    {}, {}, {"bucket": "2"}, {"sequence.field": "n"}, {"ignore-delete": "true"}, {"bucket": "-1"},
    {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.t.aggregate-function": "last_value"},
    {"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}, {"log-store.enabled": "true"},
)  # fmt: skip


class _World:
    """A table with a key, and the ids of its snapshots."""

    def __init__(self, place: Path, seed: int) -> None:
        self.random, self.lake = random.Random(seed), connect(str(place))
        columns, self.keys = self.random.choice(KEYS)
        options = {"commit.interval": "1 ms", "write-only": "true", **self.random.choice(OPTIONS)}
        self.lake.sql("create database db")
        shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        self.shown = f"seed {seed}: {columns}, {shown}"
        self.lake.sql(f"create table db.t ({columns}, n int, t string, primary key ({', '.join(self.keys)})) "
                      f"using lakelog tblproperties ({shown})")  # fmt: skip
        self.deletes = "aggregation" not in shown

    def rows(self, number: int) -> pa.Table:
        draw, kinds = self.random, {f.name: f.type for f in self.lake.table("db.t").schema}
        numbers = draw.sample(range(20), number)
        values = {name: pa.array(numbers, pa.int32()).cast(kinds[name]) if kinds[name] != pa.string()
                  else pa.array([f"k{i}" for i in numbers]) for name in self.keys[:1]}  # fmt: skip
        values |= {name: pa.array([i % 3 for i in numbers], pa.int32()).cast(kinds[name]) for name in self.keys[1:]}
        values["n"] = pa.array([draw.choice([None, 1, 2, 3]) for _ in numbers], pa.int32())
        values["t"] = pa.array([draw.choice(["x", "y"]) for _ in numbers])
        if "extra" in kinds:
            values["extra"] = pa.array([draw.choice([None, "e"]) for _ in numbers], pa.string())
        return pa.table(values)

    def act(self) -> None:
        draw, table = self.random, self.lake.table("db.t")
        action = draw.choice(["write"] * 6 + ["delete"] * 3 + ["overwrite", "truncate", "compact", "rollback", "alter"])
        rows = self.rows(draw.randint(1, 6))
        if action == "write":
            self.lake.write(rows, "db.t")
        elif action == "delete" and self.deletes:
            self.lake.write(rows.append_column("_row_kind", pa.array(["-D"] * rows.num_rows)), "db.t")
        elif action == "overwrite":
            self.lake.write(rows, "db.t", overwrite=True)
        elif action == "truncate":
            table.truncate()
        elif action == "compact":
            table.compact()
        elif action == "rollback" and (newest := table.latest_snapshot()) is not None and newest.id > 1:
            table.rollback_to(draw.randint(1, newest.id - 1))
        elif action == "alter" and "extra" not in table.schema.names:
            self.lake.sql("alter table db.t add column extra string")


def _state(table: DynamicTable, snapshot: int, columns: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    splits = table.store.plan(snapshot)
    rows = [row for s in splits for batch in table.store.read_split(s, columns) for row in batch.to_pylist()]
    return {_key(table, row): row for row in rows}


def _key(table: DynamicTable, row: Mapping[str, Any]) -> str:
    return repr([row[name] for name in table.schema.primary_keys])


def _check(lake: Lake, draw: random.Random, shown: str) -> None:
    table = lake.table("db.t").logical.all_rows
    newest = table.store.latest_snapshot()
    assert newest is not None
    first, last = (draw.randint(0, newest.id) for _ in range(2))
    names = [*table.schema.primary_keys, *draw.sample(["n", "t"], draw.randint(1, 2))]
    old, new = (_state(table, number, names) for number in (first, last))
    before, after = (table.store.snapshot(number) if number else None for number in (first, last))
    for _, batch in state_changes(table, before, after, columns=names):
        assert batch.schema.names == [*names, "_row_kind"]
        for row in batch.to_pylist():
            kind = row.pop("_row_kind")
            if kind in ("-D", "-U"):
                assert old.pop(_key(table, row)) == row, f"{shown}, {first} to {last}: {kind} of another row"
            else:
                assert _key(table, row) not in old, f"{shown}, {first} to {last}: {kind} beside the old row"
                old[_key(table, row)] = row
    assert old == new, f"{shown}, {first} to {last}"


def test_changes_are_the_difference_of_two_snapshots(
    tmp_path: Path, depth: Depth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with more keys than a condition or a set of keys may have."""
    for seed in depth.seeds(60):
        place = tmp_path / str(seed)
        place.mkdir()
        world = _World(place, seed)
        monkeypatch.setattr(transitions, "_FEW_KEYS", world.random.choice([0, 2, 1000]))
        monkeypatch.setattr(transitions, "_MOST_KEYS", world.random.choice([3, 1000, 1000]))
        world.lake.write(world.rows(8), "db.t")
        for _ in range(12):
            world.act()
            _check(world.lake, world.random, world.shown)
