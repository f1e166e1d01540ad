"""What of Arrow's rows Spark takes in which way."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.spark.runtime.types import has_null_elements

INTS = pa.list_(pa.int32())
MAP = pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        (pa.int32(), [1, None], False),
        (INTS, [[1], None, []], False),
        (INTS, [[1, None]], True),
        (pa.large_list(pa.int32()), [[None]], True),
        (pa.list_(INTS), [[[1], [2]]], False),
        (pa.list_(INTS), [[[1], [None]]], True),
        (MAP, [[("a", 1)], None], False),
        (MAP, [[("a", None)]], True),
        (pa.map_(pa.string(), INTS), [[("a", [None])]], True),
        (pa.struct([("a", pa.int32())]), [{"a": None}, None], False),
        (pa.struct([("a", pa.struct([("b", INTS)]))]), [{"a": {"b": [None]}}], True),
        (pa.list_(pa.struct([("b", INTS)])), [[{"b": [1]}], [{"b": [None]}]], True),
    ],
)
def test_null_inside_arrays_and_maps_is_found(kind: pa.DataType, values: list[Any], found: bool) -> None:
    column = pa.array(values, kind)
    assert has_null_elements([pa.array([1]), column]) == found
