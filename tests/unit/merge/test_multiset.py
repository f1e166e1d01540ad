"""Rows without a key, netted: each retraction removes one equal row before it."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN
from lakelog.merge.runs import fold_rows
from lakelog.paimon.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField
from lakelog.table.read.log_range import Multiset


def netted(rows: list[tuple[int, int]]) -> list[int]:
    values, kinds = [row[0] for row in rows], [row[1] for row in rows]
    table = pa.table(
        {
            "n": pa.array(values, pa.int64()),
            SEQUENCE_COLUMN: pa.array(range(len(rows)), pa.int64()),
            KIND_COLUMN: pa.array(kinds, pa.int8()),
        }
    )
    schema = TableSchema(0, (DataField(0, "n", AtomicType("BIGINT")),), 0)
    out = fold_rows(table, ("n",), Multiset(schema))
    assert set(out.column(KIND_COLUMN).to_pylist()) <= {INSERT, UPDATE_AFTER}
    return out.column("n").to_pylist()


@pytest.mark.parametrize("seed", range(20))
def test_a_retraction_removes_one_equal_row_before_it(seed) -> None:
    drawn = random.Random(seed)
    rows = [
        (drawn.randrange(4), drawn.choice((INSERT, INSERT, UPDATE_AFTER, DELETE, UPDATE_BEFORE))) for _ in range(60)
    ]
    left: Counter[int] = Counter()
    for value, kind in rows:
        left[value] = max(0, left[value] + (1 if kind in (INSERT, UPDATE_AFTER) else -1))
    assert netted(rows) == sorted(left.elements())


def test_a_retraction_of_a_row_before_the_range_removes_nothing() -> None:
    assert netted([(1, DELETE), (1, INSERT), (2, INSERT), (2, DELETE), (2, DELETE), (2, INSERT)]) == [1, 2]
