"""Merge engines and changelog producers: state and changes are the same in Paimon's Java core, whoever writes.

One of the two makes the table, and they take turns in writing and compacting it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from test_history_matrix import different_views
from written_histories import created

from lakelog import Lake, connect
from lakelog.lake.table import Table

COLUMNS = {"id": "INT NOT NULL", "n": "BIGINT", "v": "STRING", "w": "STRING"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate in order": {"sequence.field": "n"},
    "deletes ignored": {"ignore-delete": "true"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.v.aggregate-function": "listagg",
        "fields.w.aggregate-function": "max",
        "aggregation.remove-record-on-delete": "true",
    },
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "partial-update in groups": {
        "merge-engine": "partial-update",
        "fields.n.sequence-group": "v",
        "fields.v.aggregate-function": "last_non_null_value",
        "ignore-delete": "true",
    },
}
"""Merge engines by what the test is called, with their options."""

PRODUCERS: dict[str, dict[str, str]] = {
    "input": {"changelog-producer": "input"},
    "input of two buckets": {"changelog-producer": "input", "bucket": "2", "changelog-file.format": "avro"},
    "lookup": {"changelog-producer": "lookup"},
    "lookup of what differs": {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"},
    "full compaction": {"changelog-producer": "full-compaction"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors and lookup": {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
}
"""Changelog producers and deletion vectors, with their options."""

Row = tuple[int, int | None, str | None, str | None]


def changes(chance: random.Random, count: int) -> list[tuple[str, Row]]:
    """Random changes; deletes have all columns, as a source of changes gives them."""
    out = []
    for _ in range(count):
        row = (
            chance.randrange(6),
            chance.choice([None, *range(6)]),
            chance.choice([None, "a", "b", "c"]),
            chance.choice([None, "x", "y"]),
        )
        out.append((chance.choice(["+I", "+I", "+U", "-D"]), row))
    return out


def write(table: Table, rows: list[tuple[str, Row]]) -> None:
    target = table.schema
    columns = [pa.array([row[at] for _, row in rows], kind) for at, kind in enumerate(target.types)]
    batch = pa.Table.from_arrays([*columns, pa.array([kind for kind, _ in rows])], names=[*target.names, "_row_kind"])
    table.write(batch)


def write_there(java: Any, warehouse: str, rows: list[tuple[str, Row]], number: int, compact: tuple[int, ...]) -> None:
    values, kinds = [row for _, row in rows], [kind for kind, _ in rows]
    java.write(warehouse, "g", "t", values, kinds, identifier=number, compact=compact)


def buckets(options: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(range(int(options.get("bucket", "1"))))


def fits(engine: str, producer: str) -> bool:
    """Whether the format lets them go together."""
    return (
        engine != "first-row" or PRODUCERS[producer].get("changelog-producer") == "lookup" and "vectors" not in producer
    )


CASES = [(engine, producer) for engine in ENGINES for producer in PRODUCERS if fits(engine, producer)]


def check_same(java: Any, lake: Lake) -> None:
    """The rows, the rows with deletes, and all changes from the first snapshot on are what Paimon reads."""
    table = lake.table("g.t")
    assert ours(lake, "g.t") == sorted(map(repr, java.rows(lake.warehouse, "g", "t")))
    assert ours(lake, "g.t$audit_log") == sorted(map(repr, java.rows(lake.warehouse, "g", "t$audit_log")))
    told = [
        (plan.next, row.pop("_row_kind"), tuple(row.values()))
        for plan in table.stream_plan(from_snapshot=1)
        for row in plan.to_arrow().to_pylist()
    ]
    assert told == java.stream(lake.warehouse, "g", "t", 1)


def ours(lake: Lake, name: str) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in lake.table(name).scan().to_arrow().to_pylist())


@pytest.mark.parametrize(("engine", "producer"), CASES)
def test_state_and_changes_agree_for_any_writer_and_compactor(java, tmp_path, engine: str, producer: str) -> None:
    options = {"bucket": "1", **ENGINES[engine], **PRODUCERS[producer]}
    chance = random.Random(f"{engine} {producer}")
    with connect(warehouse=str(tmp_path / "t")) as lake:
        lake.sql("create database g")
        begins_here = CASES.index((engine, producer)) % 2 == 0
        if begins_here:
            created(lake, "t", COLUMNS, ("id",), (), **options)
        else:
            java.create(lake.warehouse, "t", COLUMNS, ["id"], (), options)
        for turn, is_here in enumerate([begins_here, begins_here, not begins_here, not begins_here, begins_here]):
            if is_here:
                write(lake.table("g.t"), changes(chance, 8))
                lake.table("g.t").compact(full=turn % 2 == 1)
            else:
                write_there(java, lake.warehouse, changes(chance, 8), turn, buckets(options) if turn % 2 else ())
            if turn in (1, 3, 4):
                check_same(java, lake)


@pytest.mark.parametrize("producer", ["input of two buckets", "vectors and lookup"])
def test_every_view_is_the_same_there(java, tmp_path, producer: str) -> None:
    with connect(warehouse=str(tmp_path / "t")) as lake:
        lake.sql("create database g")
        table = created(lake, "t", COLUMNS, ("id",), (), **{"bucket": "1", **PRODUCERS[producer]})
        chance = random.Random(producer)
        for _ in range(3):
            write(table, changes(chance, 8))
        table.compact()
        assert different_views(java, tmp_path, "t") == {}
