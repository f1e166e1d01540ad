"""Buckets as Hive counts them, against hashes that Java computes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog.errors import UnsupportedFeature
from lakelog.paimon.rows.bucket import bucket_of_rows, hive_buckets
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type

MANY = 2**31 - 1


def hash_of(array: pa.Array) -> list[int]:
    """31 bits of the hash of each value: the bucket among very many."""
    return [int(b) for b in hive_buckets([array], MANY)]


@pytest.mark.parametrize(
    ("values", "kind", "want"),
    [
        ([7, None, -1], pa.int32(), [7, 0, 0]),
        ([-5], pa.int8(), [2**31 - 5]),
        ([True, False], pa.bool_(), [1, 0]),
        ([1 << 40, -1, 5], pa.int64(), [256, 0, 5]),
        ([1.5, -0.0, 0.0], pa.float64(), [1073217536, 0, 0]),
        ([float("nan")], pa.float64(), [0x7FF80000]),
        ([1.5, float("nan")], pa.float32(), [0x3FC00000, 0x7FC00000]),
        (["hello", "", None], pa.string(), [99162322, 0, 0]),
        ([b"\x01\x02\x03", b"\xff"], pa.binary(), [1026, 2**31 - 1]),
        ([dt.date(1970, 1, 2)], pa.date32(), [1]),
        ([Decimal("12.3400"), Decimal("0.0000"), Decimal("100.0000")], pa.decimal128(10, 4), [38256, 0, 3100]),
        ([Decimal("-12.34")], pa.decimal128(10, 2), [(-38252) & 0x7FFFFFFF]),
        ([Decimal("4294967296")], pa.decimal128(20, 0), [31 * 31]),
    ],
)
def test_a_value_has_the_hash_that_java_gives_it(values, kind, want) -> None:
    assert hash_of(pa.array(values, kind)) == [w % MANY for w in want]
    shifted = pa.array([None, *values], kind).slice(1)
    assert hash_of(shifted) == [w % MANY for w in want], "a part of an array"


def test_columns_are_joined_and_rows_of_a_table_follow() -> None:
    fields = [("a", parse_type("INT"), None), ("b", parse_type("STRING"), None)]
    schema = new_schema(fields, ["a", "b"], [], {"bucket": "8", "bucket-function.type": "hive"})
    rows = pa.table({"a": pa.array([7, 9], pa.int32()), "b": ["hello", "é"]})
    assert bucket_of_rows(rows, schema).tolist() == [
        (31 * 7 + 99162322) % 8,
        ((31 * 9 + 31 * (0xC3 - 256) + 0xA9 - 256) & MANY) % 8,
    ]


def test_a_time_is_no_key() -> None:
    with pytest.raises(UnsupportedFeature, match="timestamp"):
        hive_buckets([pa.array([1], pa.timestamp("ms"))], 4)
