"""Tables whose compactions look up old values, written and compacted by Paimon's Java core and by lakelog in turn."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from lakelog import Lake, connect

COLUMNS = {"k": "INT", "n": "BIGINT", "t": "STRING", "g": "INT"}
SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.t.aggregate-function": "listagg"}
GROUPS = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "n,t",
    "fields.n.aggregate-function": "sum",
    "partial-update.remove-record-on-sequence-group": "g",
}
VECTORS = {"deletion-vectors.enabled": "true"}
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
KINDS: dict[str, dict[str, str]] = {
    "vectors": VECTORS,
    "wide vectors": {**VECTORS, "deletion-vectors.bitmap64": "true"},
    "vectors beside the data": {**VECTORS, "index-file-in-data-file-dir": "true", "file.format.per.level": "0:avro"},
    "vectors merged on read": {**VECTORS, "deletion-vectors.merge-on-read": "true"},
    "vectors with a sequence field": {**VECTORS, "sequence.field": "g"},
    "vectors of partial updates": {**VECTORS, **GROUPS},
    "forced lookup of sums": {"force-lookup": "true", **SUMS},
    "forced lookup with a sequence field": {"force-lookup": "true", "sequence.field": "g"},
    "changelog and vectors": {**LOOKUP, **VECTORS},
    "changelog of sums and vectors": {**LOOKUP, **VECTORS, **SUMS},
    "changelog of partial updates": {**LOOKUP, **GROUPS, "changelog-producer.row-deduplicate": "true"},
    "changelog of first rows": {**LOOKUP, "merge-engine": "first-row"},
    "changelog of full compactions": FULL,
    "changelog of full compactions of sums": {**FULL, **SUMS, "changelog-producer.row-deduplicate": "true"},
}
DELETES = (
    "vectors",
    "wide vectors",
    "vectors beside the data",
    "vectors merged on read",
    "changelog and vectors",
    "changelog of full compactions",
)
"""With a sequence field a deleted key may come back with a smaller one, as soon as a compaction has dropped the delete.
"""


def changes(chance: random.Random, deletes: bool) -> list[tuple[str, tuple[Any, ...]]]:
    keys = chance.sample(range(60), 25)
    kinds = ("+I", "+U", "-D") if deletes else ("+I",)
    return [
        (chance.choice(kinds), (k, chance.choice([None, 1, 5]), chance.choice(["", "x", "yy"]), chance.randrange(8)))
        for k in keys
    ]


def by_java(java, warehouse: str, name: str) -> list[tuple[Any, ...]]:
    return sorted(java.rows(warehouse, "g", name), key=lambda row: row[0])


def ours(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    rows = lake.table(f"g.{name}").scan().to_arrow().to_pylist()
    return sorted((tuple(row[c] for c in COLUMNS) for row in rows), key=lambda row: row[0])


def write_ours(lake: Lake, name: str, rows: list[tuple[str, tuple[Any, ...]]]) -> None:
    types = {"k": pa.int32(), "n": pa.int64(), "t": pa.string(), "g": pa.int32()}
    columns = {c: pa.array([row[at] for _, row in rows], types[c]) for at, c in enumerate(COLUMNS)}
    lake.table(f"g.{name}").write(pa.table({**columns, "_row_kind": [kind for kind, _ in rows]}))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_two_engines_take_turns(java, tmp_path, kind) -> None:
    """The table of both equals one that Java writes and compacts alone, and tells the same changes."""
    warehouse, chance = str(tmp_path), random.Random(kind)
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", **KINDS[kind]}
    for name in ("both", "alone"):
        java.create(warehouse, name, COLUMNS, ["k"], (), options)
    lake = connect(warehouse=warehouse)
    for step in range(8):
        rows = changes(chance, kind in DELETES)
        full = [0] if step in (3, 6) or KINDS[kind].get("changelog-producer") == "full-compaction" else []
        given = [row for _, row in rows], [k for k, _ in rows]
        java.write(warehouse, "g", "alone", *given, identifier=step, compact=full)
        if step % 4 == 1:
            java.write(warehouse, "g", "both", *given, identifier=step, compact=full)
        else:
            write_ours(lake, "both", rows)
            if full:
                lake.table("g.both").compact(full=True)
        if step in (2, 5, 7):
            expected = by_java(java, warehouse, "alone")
            assert ours(lake, "both") == expected, step
            assert by_java(java, warehouse, "both") == expected, step
    assert ours(lake, "alone") == by_java(java, warehouse, "alone")
    if "changelog-producer" in options:
        assert told(java, warehouse, "both") == told(java, warehouse, "alone")


def told(java, warehouse: str, name: str) -> list[list[tuple[str, tuple[Any, ...]]]]:
    """What a stream from the beginning reads, snapshot by snapshot."""
    by_snapshot: dict[int, list[tuple[str, tuple[Any, ...]]]] = {}
    for snapshot, kind, values in java.stream(warehouse, "g", name, 1):
        by_snapshot.setdefault(snapshot, []).append((kind, values))
    return list(by_snapshot.values())
