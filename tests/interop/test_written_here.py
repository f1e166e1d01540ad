"""Tables written here, read by Flink SQL with Paimon's connector: equal, row by row; then both write by turns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from flink_sql import FlinkSql

from lakelog import Lake
from printed import canonical, printed_rows

TYPES = (
    "id bigint, b boolean, t tinyint, s smallint, i int, f float, d double, c string, dec decimal(20, 4), "
    "small decimal(9, 2), "
    "day date, at timestamp_ntz, bin binary"
)
KINDS = {
    "keyed with a log": f"create table db.t ({TYPES}, primary key (id)) using lakelog tblproperties "
    "('log-store.enabled' = 'true')",
    "partitioned": f"create table db.t ({TYPES}, primary key (day, id)) using lakelog partitioned by (day) "
    "tblproperties ('bucket' = '2')",
    "append": f"create table db.t ({TYPES}) using lakelog",
}


def batch(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    nullable = [None if i % 7 == 0 else i for i in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "b": [None if i is None else i % 2 == 0 for i in nullable],
            "t": pa.array([None if i is None else i % 100 - 50 for i in nullable], pa.int8()),
            "s": pa.array(nullable, pa.int16()),
            "i": pa.array(nullable, pa.int32()),
            "f": pa.array([None if i is None else i / 4 for i in nullable], pa.float32()),
            "d": pa.array([None if i is None else -i / 8 for i in nullable], pa.float64()),
            "c": [None if i is None else f"é-{i}-日本" * (i % 3) for i in nullable],
            "dec": pa.array(
                [None if i is None else Decimal(f"{i}123456789.1234") for i in nullable], pa.decimal128(20, 4)
            ),
            "small": pa.array([None if i is None else Decimal(f"-{i}.25") for i in nullable], pa.decimal128(9, 2)),
            "day": [dt.date(2024, 2, 27) + dt.timedelta(days=i % 4) for i in ids],
            "at": pa.array([dt.datetime(2024, 2, 29, 23, 59, 59, i % 1000) for i in ids], pa.timestamp("us")),
            "bin": [None if i is None else bytes([i % 256, 0]) for i in nullable],
        }
    )


@pytest.fixture(params=sorted(KINDS))
def written(lake, request) -> Lake:
    lake.sql(KINDS[request.param])
    table = lake.table("db.t")
    for first in (0, 20, 40, 30, 60, 10):
        table.write(batch(first, 40))
    if table.primary_keys:
        doomed = batch(5, 3).append_column("_row_kind", pa.array(["-D"] * 3))
        table.write(doomed)
    return lake


def ours(lake: Lake) -> list[str]:
    return sorted(map(canonical, printed_rows(lake.table("db.t").scan().to_arrow())))


def test_flink_sql_reads_the_same_rows(written, flink_sql: FlinkSql) -> None:
    flink_sql.use(written.warehouse)
    theirs = sorted(map(canonical, flink_sql.rows("select * from db.t")))
    assert theirs == ours(written)
    some = flink_sql.rows("select count(*) as n, max(id) as m from db.t where id between 10 and 50 and c is not null")
    rows = written.table("db.t").scan(filter="id between 10 and 50 and c is not null").to_arrow()["id"].to_pylist()
    assert some == [{"n": len(rows), "m": max(rows)}]


def test_flink_sql_and_lakelog_write_by_turns(lake, flink_sql: FlinkSql) -> None:
    lake.sql("create table db.t (id int, c string, primary key (id)) using lakelog tblproperties ('bucket' = '2')")
    table, want = lake.table("db.t"), {}
    flink_sql.use(lake.warehouse)
    for turn in range(4):
        rows = {i: f"{turn}-{i}" for i in range(turn * 3, turn * 3 + 10)}
        want |= rows
        if turn % 2:
            flink_sql.run(
                f"insert into db.t values {', '.join(f'({i}, {chr(39)}{c}{chr(39)})' for i, c in rows.items())}"
            )
        else:
            table.write(pa.table({"id": pa.array(rows, pa.int32()), "c": list(rows.values())}))
        assert ours(lake) == sorted(canonical({"id": i, "c": c}) for i, c in want.items())
    assert {row["id"]: row["c"] for row in flink_sql.rows("select * from db.t")} == want
