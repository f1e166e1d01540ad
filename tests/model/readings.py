"""Readings of a table: Python of a user, and what it has to return."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from model.predicates import draw_condition
from model.world import World


@dataclass(frozen=True)
class Reading:
    """An expression, and its value by the model."""

    name: str
    code: str
    wanted: Any


Maker = Callable[[World, random.Random], Iterator[Reading]]
BY_LAKELOG: Final = ("scan", "count", "filtered", "whole", "union")
"""Readings of lakelog's own that show committed epochs before they have a snapshot."""
READINGS: Final[dict[str, tuple[Maker, tuple[str, ...]]]] = {}
"""Name → the maker of readings of this kind, and the entries of registries that they run."""


def reading(*covers: str) -> Callable[[Maker], Maker]:
    """Registers a maker of readings under its name."""

    def register(maker: Maker) -> Maker:
        READINGS[maker.__name__] = (maker, covers)
        return maker

    return register


@reading("Table.scan", "Lake.table", "statement:CREATE TABLE", "Table.to_arrow", "Table.to_polars", "Table.to_reader")
def scan(world: World, rng: random.Random) -> Iterator[Reading]:
    """The newest rows."""
    made = rng.choice(["t.scan()", "t", "t.to_polars()", "t.to_reader().read_all()"])
    yield Reading("scan", f"rows({made})", world.visible())


@reading("Table.count", "Table.head")
def count(world: World, rng: random.Random) -> Iterator[Reading]:
    """The number of rows, also of a limit."""
    number = len(world.visible())
    yield Reading("count", rng.choice(["t.scan().count()", "t.count()"]), number)
    made = rng.choice(["t.scan().limit(2).to_arrow()", "t.head(2)"])
    yield Reading("limit", f"{made}.num_rows", min(2, number))


@reading("statement:SELECT")
def filtered(world: World, rng: random.Random) -> Iterator[Reading]:
    """Rows by a random condition, in the API and in SQL."""
    condition = draw_condition(rng, world.columns)
    text = condition.sql(world.names)
    state = world.live(world.seen if world.hides_new else None)
    wanted = world.tuples(row for row in state if condition.holds(row))
    yield Reading("filter", f"rows(t.scan(filter={text!r}))", wanted)
    query = f"select * from db.t where {text}"
    yield Reading("select", f"rows(lake.sql({query!r}))", wanted)


@reading("statement:TABLE", "statement:FROM", "statement:WITH", "statement:(", "system table:ro")
def whole(world: World, rng: random.Random) -> Iterator[Reading]:
    """All rows as SQL says it."""
    for text in ("select * from db.t", "table db.t"):
        yield Reading("whole", f"rows(lake.sql({text!r}))", world.visible())


@reading()
def union(world: World, rng: random.Random) -> Iterator[Reading]:
    """Both stores together."""
    if world.table.has_log:
        yield Reading("union", "rows(t.scan(options={'read.mode': 'union'}))", world.everything())


@reading(
    "Lake.views",
    "statement:CREATE MATERIALIZED VIEW",
    "statement:REFRESH MATERIALIZED VIEW",
    "statement:DROP MATERIALIZED VIEW",
    "system table:view",
)
def viewed(world: World, rng: random.Random) -> Iterator[Reading]:
    """A materialized view of the table, which is as old as its columns."""
    columns = [c for c in world.columns if world.table.key or c.of.is_simple]
    if columns:
        names = [column.name for column in columns]
        at = [list(world.columns).index(column) for column in columns]
        wanted = sorted((tuple(row[i] for i in at) for row in world.everything()), key=repr)
        yield Reading("viewed", f"viewed.rows(lake, t, {names!r})", wanted)


@reading("Table.pipe")
def piped(world: World, rng: random.Random) -> Iterator[Reading]:
    """A table that a pipe keeps equal, as old as its columns."""
    if world.table.key and world.table.has_log and not world.begins_late:
        names = [column.name for column in world.columns]
        yield Reading("piped", f"piped.rows(lake, t, {names!r})", world.everything())


@reading("Table.tail")
def fold(world: World, rng: random.Random) -> Iterator[Reading]:
    """The log, by a reader from its start, one that waits for commits, and one that begins with the files."""
    if world.table.has_log:
        wanted = world.everything()
        if not world.begins_late:
            yield Reading("fold", "Fold(t).catch_up(t)", wanted)
            yield Reading("committed", "Fold(t, **{'log.consistency': 'transactional'}).catch_up(t)", wanted)
        yield Reading("latest-full", "Fold(t, 'latest-full').catch_up(t)", wanted)
        both = "Fold(t, 'latest-full', **{'log.consistency': 'transactional'}).catch_up(t)"
        yield Reading("committed latest-full", both, wanted)


@reading()
def netted(world: World, rng: random.Random) -> Iterator[Reading]:
    """The log as a batch: what all of its changes add up to, and those since the newest snapshot."""
    if world.table.has_log:
        for start in ("latest-full",) if world.begins_late else ("earliest", "latest-full"):
            options = {"read.mode": "log", "streaming": "false", "scan.startup.mode": start}
            code = f"rows(t.scan(columns=t.definition.field_names, options={options}))"
            yield Reading(f"netted {start}", code, world.everything())


@reading("Table.tail")
def resumed(world: World, rng: random.Random) -> Iterator[Reading]:
    """A reader that has been there for long, and reads on from its position."""
    if world.follows:
        yield Reading("resumed", "running.catch_up(t)", world.everything())


@reading("system table:tags")
def tagged(world: World, rng: random.Random) -> Iterator[Reading]:
    """The state that a tag names."""
    for name, state in world.tags.items():
        yield Reading("tagged", f"rows(t.scan(tag={name!r}))", world.earlier(state))


@reading()
def difference(world: World, rng: random.Random) -> Iterator[Reading]:
    """The rows that are new since an earlier state."""
    known = [number for number, state in world.marks.items() if state.columns == world.columns]
    if len(known) > 1 and world.table.key and not world.hides_new:
        first, last = sorted(rng.sample(known, 2))
        before, after = world.earlier(world.marks[first]), world.earlier(world.marks[last])
        scan = f"t.scan(incremental_between=(s{first}, s{last}), options={{'incremental-between-scan-mode': 'diff'}})"
        code = f"rows({scan}.to_arrow().drop_columns(['_row_kind'])) if s{first} < s{last} else []"
        yield Reading("difference", code, [row for row in after if row not in before])


@reading("system table:audit_log")
def audit(world: World, rng: random.Random) -> Iterator[Reading]:
    """The rows with their kinds: those that are not taken back are the newest state."""
    code = "[row[1:] for row in rows(lake.table('db.t$audit_log').scan()) if row[0][0] == '+']"
    yield Reading("audit_log", f"sorted({code}, key=repr)", world.visible())


@reading("Table.snapshots", "Table.latest_snapshot", "Table.history", "system table:snapshots", "system table:branches")
def versions(world: World, rng: random.Random) -> Iterator[Reading]:
    """The snapshots by the API and as a table are the same."""
    yield Reading(
        "versions",
        "[s.id for s in t.snapshots()] == lake.table('db.t$snapshots').scan().to_arrow()['snapshot_id'].to_pylist()",
        True,
    )
    yield Reading("history", "t.history().num_rows == len(t.snapshots())", True)
    yield Reading("branches", "lake.table('db.t$branches').scan().to_arrow().num_rows", 0)


@reading("system table:partitions")
def partitions(world: World, rng: random.Random) -> Iterator[Reading]:
    """Every partition that has rows is there."""
    if not world.partitions or world.hides_new:
        return
    number = len({world.partition_of(values) for values in world.live()})
    yield Reading("partitions", f"lake.table('db.t$partitions').scan().to_arrow().num_rows >= {number}", True)


@reading("Table.stream_plan", "system table:binlog")
def stream(world: World, rng: random.Random) -> Iterator[Reading]:
    """Changes as an array of rows for each, and the plans of a stream, can be read."""
    yield Reading("binlog", "lake.table('db.t$binlog').scan().to_arrow().num_rows >= 0", True)
    if not world.table.has_log and world.table.options.get("changelog-producer", "none") == "none":
        first = "next(iter(t.stream_plan()), None)"
        yield Reading("stream", f"({first} is None) == (t.latest_snapshot() is None)", True)


@reading("system table:log")
def reader(world: World, rng: random.Random) -> Iterator[Reading]:
    """A named reader of the log is known, so that its lag is."""
    if world.table.has_log:
        named = "{r['name'] for r in lake.table('db.t$log').scan().to_arrow().to_pylist() if r['kind'] == 'reader'}"
        named += " & {'billing'}"
        tail = "list(t.tail('earliest', stop='latest', options={'consumer-id': 'billing'}))"
        yield Reading("reader", f"({tail}, {named})[1]", {"billing"})


@reading()
def metadata(world: World, rng: random.Random) -> Iterator[Reading]:
    """A snapshot does not keep what each writer has left; a stream keeps its position."""
    if world.newest is not None and world.table.key:  # else the newest 16 replacements are in it
        path = "f'{t.path}/snapshot/snapshot-{t.latest_snapshot().id}'.removeprefix('file:')"
        yield Reading("metadata", f"os.path.getsize({path}) < {4000 + 400 * world.streams}", True)


@reading()
def migrated(world: World, rng: random.Random) -> Iterator[Reading]:
    """Files as Hive writes them become the same rows."""
    names = [column.name for column in world.columns if column.kind == "timestamp_ntz"]
    if names:
        at = [column.name for column in world.columns].index(names[0])
        wanted = sorted(((row[at],) for row in world.visible()), key=repr)
        yield Reading("migrated", f"migrated(t.scan().to_arrow().select({names[:1]!r}))", wanted)


@reading("Table.log_records")
def records(world: World, rng: random.Random) -> Iterator[Reading]:
    """The records of the log can be read as they are."""
    if world.table.has_log:
        yield Reading("records", "sum(part.num_rows for part in t.log_records()) >= 0", True)


@reading("system table:iceberg")
def iceberg(world: World, rng: random.Random) -> Iterator[Reading]:
    """Readers of Iceberg have the newest snapshot."""
    if "metadata.iceberg.storage" in world.options and world.newest is not None:
        yield Reading("iceberg", "lake.table('db.t$iceberg').scan().to_arrow().num_rows > 0", True)


@reading("Table.health", "Lake.health")
def health(world: World, rng: random.Random) -> Iterator[Reading]:
    """No finding of a table that is well; rejected rows are one, until they are replayed."""
    found = "{finding.kind for finding in lake.health('db.t').findings}"
    yield Reading("health", f"sorted({found} - {{'rejected-rows'}})" if world.had_checks else f"sorted({found})", [])
