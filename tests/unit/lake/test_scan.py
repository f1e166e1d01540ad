"""What a scan offers: forms of filters, limits, counts, and frames of other libraries."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakelog
from lakelog import Table
from lakelog.errors import InvalidRequest, InvalidSchema

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "name": ["a", "b", None, "ä"],
        "price": pa.array([Decimal("1.50"), Decimal("2.00"), None, Decimal("-1.00")], pa.decimal128(10, 2)),
        "day": pa.array([datetime.date(2024, 1, n) for n in (1, 2, 3, 4)]),
        "x": pa.array([1.5, float("nan"), None, -0.0]),
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    lake = lakelog.connect(tmp_path_factory.mktemp("scan"))
    made = lake.create_table("db.t", ROWS, primary_key="id", options={"bucket": 2})
    lake.write(ROWS, "db.t")
    return made


def ids(table: Table, filter: object) -> list[int]:
    return sorted(table.scan(["id"], filter).to_arrow()["id"].to_pylist())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("id", ">", 1), ("id", "<=", np.int64(3))], [2, 3]),
        ([("id", "==", 1), ("NAME", "=", "a")], [1]),
        ([[("id", "=", 1)], [("name", "=", "ä")]], [1, 4]),
        ([("id", "in", [1, 4, 9])], [1, 4]),
        (("id", "=", 1), [1]),
        ([("id", "not in", (1, 4))], [2, 3]),
        ([("name", "=", None)], [3]),
        ([("name", "!=", None), ("name", "!=", "a")], [2, 4]),
        ([("price", ">=", 1.5)], [1, 2]),
        ([("price", "=", Decimal(2))], [2]),
        ([("day", "<", datetime.date(2024, 1, 2))], [1]),
        ([("day", ">=", "2024-01-04")], [4]),
        ([("x", "=", 0)], [4]),
        ([("x", ">", 1.0)], [1, 2]),
        ([], [1, 2, 3, 4]),
        (pc.field("id") > 2, [3, 4]),
        ((pc.field("name") == "a") | pc.field("price").is_null(), [1, 3]),
        (pc.starts_with(pc.field("name"), "ä"), [4]),
        ("id > 2 and name is not null", [4]),
    ],
    ids=str,
)
def test_a_filter_is_text_tuples_or_an_expression(table: Table, given: object, expected: list[int]) -> None:
    assert ids(table, given) == expected


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ([("idd", ">", 1)], InvalidSchema, "unknown column 'idd'.*did you mean 'id'"),
        ([("id", "~", 1)], InvalidRequest, "unknown operator '~'"),
        ([("id", ">")], InvalidRequest, r"write it like \('id', '>', 1\)"),
        ([("id", ">", "x")], InvalidRequest, "not a value for column 'id'"),
        ([("id", "=", 1.5)], InvalidRequest, "not a value for column 'id'"),
        ([("id", "in", 3)], InvalidRequest, "takes a list"),
        (["id", "=", 1], InvalidRequest, r"'id', which is no condition: write \(column, operator, value\)"),
        (pl.col("id") > 1, InvalidRequest, "a filter is text, tuples or an Arrow expression, not Expr: write"),
        ([("day", "=", 3)], InvalidRequest, "column 'day'"),
        ([("day", "=", datetime.datetime(2024, 1, 1))], InvalidRequest, "column 'day'"),
    ],
)
def test_a_bad_condition_names_the_column_and_the_value(table: Table, given, error, text) -> None:
    with pytest.raises(error, match=text):
        table.scan(filter=given)


def test_a_scan_gives_some_rows_or_their_number(table: Table) -> None:
    scan = table.scan()
    assert [scan.count(), scan.limit(3).count(), scan.limit(0).count(), scan.limit(9).count()] == [4, 3, 0, 4]
    assert table.scan(filter=pc.field("name") == "a").count() == 1
    assert [scan.head(2).num_rows, scan.head().num_rows, scan.limit(3).limit(5).to_arrow().num_rows] == [2, 4, 3]
    assert sum(batch.num_rows for batch in scan.limit(3)) == 3
    assert pa.table(scan.limit(1)).num_rows == pl.DataFrame(scan.limit(1)).height == 1
    assert pickle.loads(pickle.dumps(scan.limit(1))).to_arrow().num_rows == 1
    with pytest.raises(InvalidRequest, match=r"limit\(-1\)"):
        scan.limit(-1)


def test_a_limit_reads_no_further_split(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = table.scan()
    assert len(scan.plan()) == 2
    read = []
    whole = type(scan).read
    monkeypatch.setattr(type(scan), "read", lambda self, split: [read.append(split), *whole(self, split)][1:])
    assert scan.head(1).num_rows == 1
    assert len(read) == 1


def test_a_scan_is_a_frame_of_polars_and_pandas(table: Table) -> None:
    assert table.scan().to_polars().sort("id").equals(pl.DataFrame(ROWS))
    frame = table.scan(["id", "name"]).to_pandas().sort_values("id")
    assert isinstance(frame, pd.DataFrame)
    assert frame["id"].tolist() == [1, 2, 3, 4]


def test_a_scan_explains_what_it_reads(tmp_path: Path) -> None:
    table = lakelog.connect(tmp_path).create_table("db.t", {"id": "int", "day": "string"}, partition_by="day")
    for day in ("a", "b"):
        table.write(pa.table({"id": pa.array([1, 2], pa.int32()), "day": [day] * 2}))
    text = table.scan(filter=[("day", "=", "b")]).explain()
    assert "files: 1 of 2 of the newest snapshot, 2 rows" in text
    assert "splits: 1, of which 0 merge" in text


def test_a_plan_of_changes_takes_tuples_as_a_scan_does(tmp_path: Path) -> None:
    table = lakelog.connect(tmp_path).create_table("db.t", {"id": "int"})
    table.write(pa.table({"id": pa.array([1, 2, 3], pa.int32())}))
    plans = table.stream_plan(filter=[("id", ">", 1)])
    assert sorted(row["id"] for plan in plans for row in plan.to_arrow().to_pylist()) == [2, 3]
