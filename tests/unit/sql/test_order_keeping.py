"""What a comparison of a cast, or of a time, says of the column itself."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.sql.query.predicate_pushdown import pushed_predicate

TYPES = {
    "id": "INT",
    "big": "BIGINT",
    "day": "DATE",
    "wall": "TIMESTAMP(6)",
    "s": "STRING",
    "d": "DOUBLE",
}
TYPES["at"] = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
SCHEMA = new_schema([(name, parse_type(kind), None) for name, kind in TYPES.items()], ("id",), (), {}, None, 0)


def pushed(condition: str) -> str | None:
    tree = sqlglot.parse_one(f"select * from t where {condition}", dialect="spark")
    table = tree.find(exp.Table)
    assert table is not None
    return pushed_predicate(table, SCHEMA)


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ("wall >= '2024-01-02 10:00:00'", "((wall >= '2024-01-01 15:00:00'))"),
        ("at < timestamp '2024-01-02 10:00:00'", "((at <= '2024-01-03 05:00:00+00:00'))"),
        ("'2024-01-02' < at", "((at >= '2024-01-01 05:00:00+00:00'))"),
        (
            "at = '2024-01-02T10:00:00+02:00'",
            "((at >= '2024-01-01 13:00:00+00:00' AND at <= '2024-01-03 03:00:00+00:00'))",
        ),
        (
            "cast(at as date) = '2024-01-02'",
            "((at >= '2024-01-01 05:00:00+00:00' AND at <= '2024-01-03 19:00:00+00:00'))",
        ),
        ("to_date(wall) > date '2024-01-02'", "((wall >= '2024-01-01 05:00:00'))"),
        ("date(wall) <= '2024-01-02'", "((wall <= '2024-01-03 19:00:00'))"),
        (
            "wall between '2024-01-02' and '2024-01-03'",
            "(((wall >= '2024-01-01 05:00:00') AND (wall <= '2024-01-03 19:00:00')))",
        ),
        (
            "to_date(wall) in (date '2024-01-02', '2024-02-02')",
            "(((wall >= '2024-01-01 05:00:00' AND wall <= '2024-01-03 19:00:00') OR "
            "(wall >= '2024-02-01 05:00:00' AND wall <= '2024-02-03 19:00:00')))",
        ),
        ("cast(day as timestamp) >= '2024-01-02 20:00:00'", "((day >= '2024-01-02'))"),
        ("cast(id as bigint) = 5", "(id = 5)"),
        ("id::double > -5", "(id >= -5)"),
        ("7 >= cast(id as int)", "(id <= 7)"),
        ("cast(id as bigint) in (1, 2)", "((id = 1 OR id = 2))"),
        ("cast(id as bigint) = 5 or big = 6", "(id = 5 OR big = 6)"),
        ("day >= '2024-01-02'", "(day >= '2024-01-02')"),
        ("cast(at as date) = '2024-02-29 12:00:00+14:00'", None),
        ("wall = '2024-02-29 20:00:00+18:00'", None),
        ("to_date(wall) = timestamp '2024-02-29 00:00:00+03:00'", None),
        ("cast(big as int) = 5", None),
        ("cast(id as string) = '5'", None),
        ("cast(id as decimal(5, 0)) = 5", None),
        (f"cast(big as double) = {1 << 60}", None),
        ("cast(s as date) = '2024-01-02'", None),
        ("cast(d as bigint) = 5", None),
        ("to_date(wall, 'yyyy') = '2024-01-02'", None),
        ("to_date(s) = '2024-01-02'", None),
        ("date_trunc('day', wall) = '2024-01-02'", None),
        ("wall <> '2024-01-02'", None),
        ("wall = 'yesterday'", None),
        ("wall = s", None),
        ("not (wall > '2024-01-02')", None),
        ("wall >= '0001-01-01 00:00:00'", None),
    ],
)
def test_the_column_is_compared_as_widely_or_more(condition: str, want: str | None) -> None:
    assert pushed(condition) == want
