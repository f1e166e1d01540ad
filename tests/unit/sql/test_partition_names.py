"""Every partition can be named: as SHOW PARTITIONS prints it, and as a literal of its type."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake
from lakelog.errors import InvalidRequest, NotFound

_NOON = dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC)
_VALUES: dict[str, list[Any]] = {
    "boolean": [True, False, None],
    "tinyint": [-3, 0],
    "bigint": [2**60, None],
    "float": [1.1, math.nan, 0.0, -0.0, 1e10, None],
    "double": [math.inf, -math.inf, 1e-7, math.nan, 0.1],
    "decimal(5,2)": [Decimal("1.50"), Decimal("-0.01")],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
    "time(3)": [dt.time(12, 0, 0, 500000), dt.time(0)],
    "char(3)": ["ab"],
    "string": ["a/b=c", "NaN", "2024-01-01", "'", "", " ", None],
    "timestamp": [_NOON, _NOON.replace(microsecond=1), dt.datetime(1700, 1, 1, tzinfo=dt.UTC), None],
    "timestamp_ltz(3)": [_NOON, _NOON.replace(microsecond=7000)],
    "timestamp_ntz": [dt.datetime(2024, 6, 1, 12), dt.datetime(1, 1, 1), None],
    "timestamp_ntz(9)": [dt.datetime(2024, 6, 1, 12)],
}


def _lake(path: Path, kind: str, values: list[Any]) -> Lake:
    lake = lakelog.connect(path)
    lake.sql(f"create table t (id int, p {kind}) partitioned by (p)")
    column = pa.array(values, lake.table("t").scan().to_arrow().schema.field("p").type)
    lake.write(pa.table({"id": pa.array(range(len(values)), pa.int32()), "p": column}), "t")
    return lake


def _shown(lake: Lake, clause: str = "") -> list[str]:
    return [str(row["partition"])[2:] for row in lake.sql(f"show partitions t {clause}").to_arrow().to_pylist()]


@pytest.mark.parametrize("statement", ["alter table t drop partition (p = {})", "truncate table t partition (p = {})"])
@pytest.mark.parametrize("kind", _VALUES)
def test_a_partition_has_the_name_that_show_partitions_prints(tmp_path: Path, kind: str, statement: str) -> None:
    values = _VALUES[kind]
    lake = _lake(tmp_path, kind, values)
    shown = _shown(lake)
    assert len(set(shown)) == len(values)
    for left, name in enumerate(reversed(shown)):
        text = "'" + name.replace("'", "\\'") + "'"
        assert _shown(lake, f"partition (p = {text})") == [name]
        lake.sql(statement.format(text))
        assert lake.table("t").scan().count() == len(shown) - left - 1


@pytest.mark.parametrize(
    ("kind", "literal", "value"),
    [
        ("timestamp", "timestamp'2024-06-01 12:00:00Z'", _NOON),
        ("timestamp", "timestamp_ltz'2024-06-01 14:00:00+02:00'", _NOON),
        ("timestamp_ntz", "timestamp_ntz'2024-06-01 12:00:00'", dt.datetime(2024, 6, 1, 12)),
        ("timestamp_ntz", "date'2024-06-01'", dt.datetime(2024, 6, 1)),
        ("date", "date'2024-06-01'", dt.date(2024, 6, 1)),
        ("time(3)", "time'12:00:00'", dt.time(12)),
        ("double", "1.5D", 1.5),
        ("bigint", "-7L", -7),
        ("decimal(5,2)", "1.5BD", Decimal("1.50")),
        ("boolean", "TRUE", True),
    ],
)
def test_a_partition_is_named_by_a_literal_of_its_type(tmp_path: Path, kind: str, literal: str, value: Any) -> None:
    lake = _lake(tmp_path, kind, [value])
    lake.sql(f"alter table t drop partition (p = {literal})")
    assert lake.table("t").scan().count() == 0


@pytest.mark.parametrize(
    ("kind", "text"), [("timestamp", "noon"), ("date", "2024-13-01"), ("double", "x"), ("int", "1.5")]
)
def test_text_that_is_no_value_of_the_column_is_refused(tmp_path: Path, kind: str, text: str) -> None:
    lake = _lake(tmp_path, kind, [None])
    with pytest.raises(InvalidRequest, match=f"partition column 'p' is .*'{text}' does not fit"):
        lake.sql(f"alter table t drop partition (p = '{text}')")


def test_values_of_some_partition_columns_name_all_partitions_that_have_them(tmp_path: Path) -> None:
    lake = lakelog.connect(tmp_path)
    lake.sql("create table t (id int, a int, b string) partitioned by (a, b)")
    rows = {"id": pa.array([1, 2, 3], pa.int32()), "a": pa.array([1, 1, 2], pa.int32()), "b": ["x", "y", "x"]}
    lake.write(pa.table(rows), "t")
    with pytest.raises(NotFound, match="no partition a = 3"):
        lake.sql("alter table t drop partition (a = 3)")
    lake.sql("alter table t drop partition (a = 1)")
    assert lake.table("t").scan().to_arrow()["id"].to_pylist() == [3]
