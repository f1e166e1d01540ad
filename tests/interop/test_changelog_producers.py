"""Merge engines and changelog producers: every view, the stream too, is the same in Paimon's Java core, which goes on
writing and compacting where we stopped, as we do where it stopped."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
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
    with table.writer() as writer:
        writer.write(batch)


def write_there(java: Any, warehouse: str, rows: list[tuple[str, Row]], number: int, compact: tuple[int, ...]) -> None:
    values, kinds = [row for _, row in rows], [kind for kind, _ in rows]
    java.write(warehouse, "g", "t", values, kinds, identifier=number, compact=compact)


def make(directory: Path, options: Mapping[str, str]) -> Lake:
    lake = connect(warehouse=str(directory / "t"))
    lake.sql("create database g")
    created(lake, "t", COLUMNS, ("id",), (), **{"bucket": "1", **options})
    return lake


def buckets(options: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(range(int(options.get("bucket", "1"))))


def fits(engine: str, producer: str) -> bool:
    """Whether the format lets them go together."""
    return (
        engine != "first-row" or PRODUCERS[producer].get("changelog-producer") == "lookup" and "vectors" not in producer
    )


@pytest.mark.parametrize(("engine", "producer"), [(e, p) for e in ENGINES for p in PRODUCERS if fits(e, p)])
def test_all_views_agree_whoever_writes_and_compacts(java, tmp_path, engine: str, producer: str) -> None:
    options = {**ENGINES[engine], **PRODUCERS[producer]}
    chance = random.Random(f"{engine} {producer}")
    with make(tmp_path, options) as lake:
        table = lake.table("g.t")
        for turn in range(4):
            write(table, changes(chance, 8))
            if turn == 2:
                table.compact()
        assert different_views(java, tmp_path, "t") == {}
        for turn in range(3):
            write_there(java, lake.warehouse, changes(chance, 8), turn, buckets(options) if turn == 1 else ())
        assert different_views(java, tmp_path, "t") == {}
        for _ in range(2):
            write(table, changes(chance, 8))
        table.compact()
        assert different_views(java, tmp_path, "t") == {}
