"""Random histories of tables under materialized views; SQLite computes what each view should have.

The queries are in the SQL that Spark, DuckDB and SQLite share. Views read tables and other views, three levels deep.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lakelog import connect
from lakelog.lake import Lake
from lakelog.lake.table import Table
from lakelog.sql.views.refresh import ViewRefresher
from lakelog.sql.views.sources import SourceReads
from lakelog.table.model.waiting_epochs import waiting_position
from lakelog.table.views.definition import ROW_KEY, ViewDefinition
from lakelog.table.views.position import ViewPosition

TABLES: Final[Mapping[str, str]] = {
    "a": "id int, g string, n int, primary key (id)",
    "b": "id int, a_id int, v int, w int, primary key (id)",
    "e": "k string, v int",
}
COLUMNS: Final[Mapping[str, Sequence[str]]] = {"a": ("id", "g", "n"), "b": ("id", "a_id", "v", "w"), "e": ("k", "v")}

SHAPES: Final[Sequence[str]] = (
    "select id, g, n from db.a where n > 3",
    "select id, g from db.a where g is null or n between 2 and 5",
    "select g, count(*) as c from db.a group by g",
    "select g, count(n) as c, sum(n) as s, min(n) as lo, max(n) as hi from db.a group by g",
    "select g, count(distinct n) as d from db.a where id > 2 group by g having count(*) > 1",
    "select g, n, count(*) as c from db.a group by g, n",
    "select count(*) as c, sum(n) as s, max(g) as g from db.a",
    "select k, sum(v) as s, count(*) as c from db.e group by k",
    "select k, max(v) as m, avg(v) as a from db.e group by k",
    "select distinct k, v from db.e",
    "select distinct g from db.a where n is not null",
    "select k, count(*) filter (where v > 2) as c, sum(v) filter (where v > 2) as s from db.e group by k",
    "select b.id, a.g, b.v from db.b join db.a on b.a_id = a.id",
    "select b.id, a.g, b.v from db.b left join db.a on b.a_id = a.id",
    "select b.id, b.v, a.g from db.b left join db.a on b.a_id = a.id where a.g is null or b.v > 3",
    "select a.id, b.id as b_id, a.g, b.v from db.a join db.b on a.n = b.v",
    "select a.id, b.id as b_id, b.v from db.a left join db.b on a.n = b.v",
    "select a.id, b.id as b_id from db.a full join db.b on a.id = b.a_id",
    "select b.id as b_id, a.id as a_id from db.a right join db.b on a.n = b.w",
    "select a.g, count(*) as c, sum(b.v) as s, max(b.w) as m from db.a join db.b on a.id = b.a_id group by a.g",
    "select a.g, b.w, count(*) as c from db.a join db.b on a.id = b.a_id where b.v <> 2 group by a.g, b.w",
    "select a.id, count(b.id) as c, sum(b.v) as s from db.a left join db.b on a.id = b.a_id group by a.id",
    "select a.g, count(b.id) as c, count(*) as r from db.a left join db.b on a.id = b.a_id and b.v > 2 group by a.g",
    "select x.id, y.id as y_id from db.a x join db.a y on x.n = y.n and x.id < y.id",
    "select x.g, count(*) as c from db.a x join db.a y on x.n = y.id group by x.g",
    "select a.id, b.id as b_id, e.v as v, count(*) as c from db.a join db.b on a.id = b.a_id join db.e on e.v = b.v "
    "group by a.id, b.id, e.v",
    "select id, g from db.a where exists (select 1 from db.b where b.a_id = a.id)",
    "select id, g from db.a where not exists (select 1 from db.b where b.a_id = a.id and b.v > 2)",
    "select id, g from db.a where id in (select a_id from db.b where v > 1)",
    "select id, n from db.a where n > (select avg(v) from db.e)",
    "select id, row_number() over (partition by g order by n, id) as r from db.a",
    "select id, g, n from (select id, g, n, row_number() over (partition by g order by n desc, id) as r from db.a) x "
    "where r <= 2",
    "select id, sum(n) over (partition by g) as s from db.a",
    "with x as (select a_id, sum(v) as s from db.b group by a_id) "
    "select a.id, a.g, x.s from db.a join x on x.a_id = a.id",
    "select x.g, count(*) as c from (select g, n from db.a where n > 1) x group by x.g",
    "select g as k from db.a union select k from db.e",
    "select id, g, n from db.a union all select id, 'b' as g, v from db.b union all "
    "select a_id, 'c' as g, count(*) as n from db.b group by a_id",
    "select g as k, n as v from db.a intersect select k, v from db.e",
    "select id from db.a except select a_id from db.b",
    "select id, case when n > 3 then 'big' when n is null then 'none' else 'small' end as size from db.a",
    "select id, coalesce(g, 'x') || '-' as t, n + 1 as n1, n * 2 as n2, abs(n - 4) as d from db.a",
    "select g, max(n) as m from db.a where g in ('p', 'q') or g like 'r%' group by g",
    "select coalesce(g, 'none') as g, count(*) as c from db.a group by coalesce(g, 'none')",
    "select g, count(*) as c, sum(n) as s from db.a group by g having sum(n) > 4 or count(n) = 0",
    "select count(*) as c, count(n) as d, sum(n * 2) as s from db.a where id > 2",
    "select n + 1 as m, sum(id) filter (where g = 'p') as s, count(*) as c from db.a where n > 0 group by n + 1",
    "select k, sum(v) + count(*) as s, case when k is null then 0 else sum(v) end as z from db.e group by k",
    "select g, n, sum(id) as s from db.a where n is null or n < 5 group by g, n",
)
"""Queries of views over tables."""

HIGHER: Final[Sequence[str]] = (
    "select c, count(*) as groups from db.v0 group by c",
    "select v0.g, v0.c, v1.id from db.v0 join db.v1 on v0.g = v1.g where v0.c > 1",
    "select v1.g, sum(v1.v) as s from db.v1 group by v1.g",
    "select v1.id, a.n from db.v1 left join db.a on v1.id = a.id",
)
"""Queries over ``v0``, the numbers of ``a`` by ``g``, and ``v1``, ``b`` with the ``g`` of its ``a``."""
TOP: Final = "select count(*) as rows, sum(groups) as g from db.v2"
"""A query over ``v2``, the first of ``HIGHER``."""

GROUPS: Final = ("p", "q", "rs", "", None)


@dataclass
class ViewWorld:
    """Tables and views of one warehouse, and what happens to them; all of it follows from the seed."""

    place: Path
    seed: int
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.lake: Lake = connect(str(self.place))
        self.lake.sql("create database db")
        self.views: dict[str, str] = {}
        self.reads = SourceReads(self.lake._session)
        self.refreshers: dict[str, list[ViewRefresher]] = {}
        for name, columns in TABLES.items():
            self.lake.sql(f"create table db.{name} ({columns}) with ({self._options(name)})")

    def _options(self, name: str) -> str:
        draw = self.random
        options = {"commit.interval": "1 ms", "bucket": draw.choice(["1", "2"]), "write-only": "true"}
        if name == "e":
            options["bucket-key"] = "k"
        if draw.random() < 0.5:
            options["log-store.enabled"] = "true"
        elif name != "e" and draw.random() < 0.4:
            options["deletion-vectors.enabled"] = "true"
        return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())

    def create_views(self, number: int) -> None:
        """Creates ``v0``, ``v1``, views over them, and some other views."""
        chosen = [SHAPES[2], SHAPES[13], HIGHER[0], *self.random.sample(HIGHER[1:], 1), TOP]
        for query in (*chosen, *self.random.sample(SHAPES, number)):
            name = f"v{len(self.views)}"
            self.lake.sql(f"create materialized view db.{name} with ('commit.interval' = '1 ms') as {query}")
            self.views[name] = query
            self.steps.append(f"create {name}: {query}")

    def act(self) -> None:
        """One change of a table."""
        draw = self.random
        name = draw.choice(["a", "a", "b", "b", "e"])
        action = draw.choice(["write"] * 8 + ["delete"] * 3 + ["overwrite", "truncate", "rollback", "compact", "alter"])
        self.steps.append(f"{action} {name}")
        table = self.lake.table(f"db.{name}")
        if action == "write":
            self.lake.write(self._rows(name, draw.randint(1, 6)), f"db.{name}")
        elif action == "delete" and name != "e":
            gone = self._rows(name, draw.randint(1, 4))
            self.lake.write(gone.append_column("_row_kind", pa.array(["-D"] * gone.num_rows)), f"db.{name}")
        elif action == "delete":
            self.lake.sql(f"delete from db.e where v = {draw.randint(0, 6)}")
        elif action == "overwrite":
            self.lake.write(self._rows(name, draw.randint(0, 8)), f"db.{name}", overwrite=True)
        elif action == "truncate" and draw.random() < 0.4:
            table.truncate()
        elif action == "rollback" and (newest := table.latest_snapshot()) is not None and newest.id > 1:
            table.rollback_to(draw.randint(max(1, newest.id - 3), newest.id - 1))
        elif action == "compact":
            table.compact()
        elif action == "alter" and "extra" not in table.schema.names:
            self.lake.sql(f"alter table db.{name} add column extra string")

    def _rows(self, name: str, number: int) -> pa.Table:
        draw = self.random
        ids = draw.sample(range(9), min(number, 9))
        nullable = [None, *range(7)]
        if name == "a":
            rows = [{"id": i, "g": draw.choice(GROUPS), "n": draw.choice(nullable)} for i in ids]
            kinds = [("id", pa.int32()), ("g", pa.string()), ("n", pa.int32())]
        elif name == "b":
            rows = [{"id": i, "a_id": draw.choice(nullable), "v": draw.choice(nullable), "w": draw.randint(0, 3)}
                    for i in ids]  # fmt: skip
            kinds = [(c, pa.int32()) for c in COLUMNS["b"]]
        else:
            rows = [{"k": draw.choice(GROUPS), "v": draw.choice(nullable)} for _ in range(number)]
            kinds = [("k", pa.string()), ("v", pa.int32())]
        if "extra" in self.lake.table(f"db.{name}").schema.names:
            rows, kinds = [{**row, "extra": draw.choice(["x", None])} for row in rows], [*kinds, ("extra", pa.string())]
        return pa.Table.from_pylist(rows, schema=pa.schema(kinds))

    def refresh(self, name: str) -> None:
        """Refreshes a view, by one of two refreshers of it, which may be new: its process was killed.

        The first ones of all views share their reads of the sources, which they may have from an earlier step.
        """
        draw = self.random
        kept = self.refreshers.setdefault(name, [])
        while len(kept) < 2:
            identifier, reads = self.lake._session.identifier(f"db.{name}"), None if kept else self.reads
            kept.append(ViewRefresher(self.lake._session, identifier, str(self.place), reads))
        at = draw.randrange(2)
        if draw.random() < 0.2:
            kept[at].close()
        if draw.random() < 0.6:
            self.reads.forget()
        self.steps.append(f"refresh {name} by {at}")
        kept[at].refresh()

    def check(self, name: str) -> None:
        """The rows of a view, in files and log, are those of its query at its position."""
        table = self.lake.table(f"db.{name}")
        definition = ViewDefinition.need(table.logical.schema, name)
        position = ViewPosition.parse(waiting_position(table.logical, definition.writer))
        assert position is not None
        expected = answer(self.lake, self.views[name], {n: at.snapshot for n, at in position.sources.items()})
        columns = [c for c in table.schema.names if c != ROW_KEY]
        shown = f"seed {self.seed}, {name}: {self.views[name]}\n" + "\n".join(self.steps)
        assert sorted_rows(table.scan(columns).to_arrow().to_pylist()) == expected, shown
        assert sorted_rows(folded(table, columns)) == expected, f"log of {shown}"


def answer(lake: Lake, query: str, snapshots: Mapping[str, int]) -> list[tuple[Any, ...]]:
    """The rows of a query over snapshots of tables, by SQLite."""
    with sqlite3.connect(":memory:") as db:
        for full, snapshot in snapshots.items():
            name = full.rpartition(".")[2]
            names, rows = _source(lake.table(full), snapshot)
            db.execute(f"create table {name} ({', '.join(names)})")
            db.executemany(f"insert into {name} values ({', '.join('?' * len(names))})", rows)
        db.execute("pragma case_sensitive_like = true")
        rows = db.execute(query.replace("db.", "")).fetchall()
    db.close()
    return sorted(rows, key=repr)


def _source(table: Table, snapshot: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    names = [c for c in table.schema.names if c not in (ROW_KEY, "extra")]
    return names, [tuple(row[name] for name in names) for row in all_rows(table, snapshot)]


def all_rows(table: Table, snapshot: int) -> list[dict[str, Any]]:
    """The rows of a snapshot, also those that wait for a compaction."""
    logical = table.logical.all_rows
    splits = logical.store.plan(snapshot)
    return [row for split in splits for batch in logical.store.read_split(split) for row in batch.to_pylist()]


def folded(table: Table, columns: Sequence[str], options: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The rows that the log of a view adds up to."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for batch in table.tail("earliest", stop="latest", options=options):
        for row in batch.to_pylist():
            key, kind = tuple(row[k] for k in table.primary_keys), row.pop("_row_kind")
            if kind in ("+I", "+U"):
                rows[key] = row
            elif kind == "-U":
                assert rows[key] == row, "the old row of a change is the row that was there"
            else:
                rows.pop(key, None)
    return [{c: row[c] for c in columns} for row in rows.values()]


def sorted_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows), key=repr)


def run(place: Path, seed: int, views: int = 4, steps: int = 30) -> Iterator[str]:
    """A history; yields each step that was checked. Raises AssertionError with the history."""
    world = ViewWorld(place, seed)
    for _ in range(3):
        world.act()
    world.create_views(views)
    for name in world.views:
        world.check(name)
    for _ in range(steps):
        for _ in range(world.random.randint(1, 3)):
            world.act()
        for name in world.views if world.random.random() < 0.5 else world.random.sample([*world.views], 2):
            world.refresh(name)
            world.check(name)
            yield name
    for refreshers in world.refreshers.values():
        for refresher in refreshers:
            refresher.close()
