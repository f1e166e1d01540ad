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
READINGS: Final[dict[str, tuple[Maker, tuple[str, ...]]]] = {}
"""Name → the maker of readings of this kind, and the entries of registries that they run."""


def reading(*covers: str) -> Callable[[Maker], Maker]:
    """Registers a maker of readings under its name."""

    def register(maker: Maker) -> Maker:
        READINGS[maker.__name__] = (maker, covers)
        return maker

    return register


@reading("Table.scan", "Lake.table")
def scan(world: World, rng: random.Random) -> Iterator[Reading]:
    """The newest rows."""
    yield Reading("scan", "rows(t.scan())", world.visible())


@reading()
def count(world: World, rng: random.Random) -> Iterator[Reading]:
    """The number of rows, also of a limit."""
    number = len(world.visible())
    yield Reading("count", "t.scan().count()", number)
    yield Reading("limit", "t.scan().limit(2).to_arrow().num_rows", min(2, number))


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


@reading("Table.tail")
def fold(world: World, rng: random.Random) -> Iterator[Reading]:
    """The log, by a reader from its start, one that waits for commits, and one that begins with the files."""
    if world.table.has_log:
        wanted = world.everything()
        yield Reading("fold", "Fold(t).catch_up(t)", wanted)
        yield Reading("committed", "Fold(t, **{'log.consistency': 'transactional'}).catch_up(t)", wanted)
        yield Reading("latest-full", "Fold(t, 'latest-full').catch_up(t)", wanted)


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


@reading("system table:audit_log")
def audit(world: World, rng: random.Random) -> Iterator[Reading]:
    """The rows with their kinds: those that are not taken back are the newest state."""
    code = "[row[1:] for row in rows(lake.table('db.t$audit_log').scan()) if row[0][0] == '+']"
    yield Reading("audit_log", f"sorted({code}, key=repr)", world.visible())


@reading("Table.health", "Lake.health")
def health(world: World, rng: random.Random) -> Iterator[Reading]:
    """No finding of a table that is well."""
    yield Reading("health", "[finding.kind for finding in lake.health('db.t').findings]", [])
