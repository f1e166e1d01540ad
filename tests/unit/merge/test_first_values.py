"""A first value is that of the rows that led to it: rows of a group that are late, and rows after a deletion."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakelog.merge.aggregates import make_aggregate
from lakelog.merge.steps import ADD, ADD_REVERSED, SET, Steps
from lakelog.paimon.types.types import DataField, parse_type


def first(name: str, *steps: tuple[int, str | None]) -> str | None:
    ops = np.array([op for op, _ in steps], dtype=np.uint8)
    column = pa.array([value for _, value in steps], pa.string())
    function = make_aggregate(name, DataField(0, "v", parse_type("STRING")), {})
    return function.apply(column, Steps(np.arange(len(ops)), ops, np.array([0])))[0].as_py()


@pytest.mark.parametrize("name", ["first_value", "first_non_null_value"])
def test_a_first_value_folds_again(name: str) -> None:
    counts_null = name == "first_value"
    assert first(name, (ADD, "a"), (ADD_REVERSED, None)) == (None if counts_null else "a")
    assert first(name, (ADD, "a"), (ADD_REVERSED, "b"), (ADD, "c")) == "b"
    assert first(name, (ADD, "a"), (SET, "b")) == "b"
    assert first(name, (ADD, "a"), (SET, "b"), (ADD, "c")) == "c"
    assert first(name, (SET, "b"), (ADD, None), (ADD, "c")) == (None if counts_null else "c")
