"""Which rows of a key count where a row of a level above 0 is the whole value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.merge import merge_engine
from lakelog.merge.base import Piece
from lakelog.merge.lowest_level import LowestLevel, with_level
from lakelog.merge.runs import merge_runs
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type

FIELDS = [("k", parse_type("INT NOT NULL"), None), ("n", parse_type("BIGINT"), None), ("t", parse_type("STRING"), None)]
SUMS = {"fields.n.aggregate-function": "sum", "fields.t.aggregate-function": "listagg"}


def merged(*runs: tuple[int, list[tuple[int, int, str]]]) -> list[dict[str, Any]]:
    """Sums of runs (level, rows of kind +U), oldest first."""
    engine = LowestLevel(merge_engine("aggregation", new_schema(FIELDS, ["k"], [], SUMS)))
    batches = []
    for at, (level, rows) in enumerate(runs):
        columns = {
            "k": pa.array([k for k, _, _ in rows], pa.int32()),
            "n": pa.array([n for _, n, _ in rows], pa.int64()),
            "t": pa.array([t for _, _, t in rows], pa.string()),
            "_SEQUENCE_NUMBER": pa.array([at] * len(rows), pa.int64()),
            "_VALUE_KIND": pa.array([UPDATE_AFTER] * len(rows), pa.int8()),
        }
        batches.append(iter([with_level(pa.record_batch(columns), level)]))
    out = [b for b in merge_runs(batches, ["k"], engine) if b.num_rows]
    assert all(b.schema.names == ["k", "n", "t", "_SEQUENCE_NUMBER", "_VALUE_KIND"] for b in out)
    return [row for b in out for row in b.to_pylist()]


def test_level_zero_and_the_lowest_level_above_count() -> None:
    rows = merged(
        (5, [(1, 100, "x"), (2, 100, "x"), (3, 100, "x"), (4, 100, "")]),
        (4, [(1, 110, "x,y"), (2, 120, "x,y"), (5, 7, "z")]),
        (3, [(1, 111, "x,y,z")]),
        (0, [(1, 1, "a"), (3, 1, "b"), (6, 1, "")]),
        (0, [(1, 2, "c")]),
    )
    assert [(r["k"], r["n"], r["t"]) for r in rows] == [
        (1, 114, "x,y,z,a,c"), (2, 120, "x,y"), (3, 101, "x,b"), (4, 100, ""), (5, 7, "z"), (6, 1, ""),
    ]  # fmt: skip


def test_a_row_that_is_left_alone_is_folded() -> None:
    # a fold makes an insert of it; the only row of a key passes as it is
    rows = merged((5, [(1, 1, "x"), (2, 1, "")]), (4, [(1, 2, "")]))
    assert [(r["k"], r["n"], r["_VALUE_KIND"]) for r in rows] == [(1, 2, INSERT), (2, 1, UPDATE_AFTER)]


def test_a_lone_row_that_must_be_folded_is_folded_whatever_is_left_out_of_other_keys() -> None:
    engine = LowestLevel(merge_engine("aggregation", new_schema(FIELDS, ["k"], [], SUMS)))
    columns = {
        "k": pa.array([1, 1, 2], pa.int32()),
        "n": pa.array([9, 8, 3], pa.int64()),
        "t": pa.array(["", "", ""]),
        "_SEQUENCE_NUMBER": pa.array([0, 1, 2], pa.int64()),
        "_VALUE_KIND": pa.array([INSERT, INSERT, UPDATE_AFTER], pa.int8()),
        "_LEVEL": pa.array([5, 4, 0], pa.int8()),
    }
    folded = engine.fold(Piece(pa.table(columns), None, np.array([0, 2]), np.array([True, True])))
    assert [(r["k"], r["n"], r["_VALUE_KIND"]) for r in folded.to_pylist()] == [(1, 8, INSERT), (2, 3, INSERT)]
