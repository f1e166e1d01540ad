"""Tables written here, read by Apache Paimon's Java core 1.4.2 and by pypaimon 2.1: equal, row by row."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from flink_sql import FlinkSql

from lakelog import Lake, connect
from printed import canonical, printed_rows

TYPES = (
    "id bigint, b boolean, t tinyint, s smallint, i int, f float, d double, c string, dec decimal(20, 4), "
    "small decimal(9, 2), "
    "day date, at timestamp_ntz, bin binary"
)
KINDS = {
    "keyed": f"create table db.t ({TYPES}, primary key (id)) using lakelog tblproperties ('bucket' = '3')",
    "keyed with a log": f"create table db.t ({TYPES}, primary key (id)) using lakelog tblproperties "
    "('log-store.enabled' = 'true')",
    "partitioned": f"create table db.t ({TYPES}, primary key (day, id)) using lakelog partitioned by (day) "
    "tblproperties ('bucket' = '2')",
    "append": f"create table db.t ({TYPES}) using lakelog",
    "append with buckets": f"create table db.t ({TYPES}) using lakelog tblproperties ('bucket' = '2', "
    "'bucket-key' = 'id,c')",
    **{
        f"{name} with a log": f"create table db.t ({TYPES}, primary key (id)) using lakelog tblproperties "
        f"('log-store.enabled' = 'true', {options})"
        for name, options in {
            "dynamic buckets": "'bucket' = '-1', 'log-store.partitions' = '2', 'dynamic-bucket.target-row-num' = '40'",
            "aggregation": "'merge-engine' = 'aggregation', 'fields.i.aggregate-function' = 'sum', "
            "'fields.c.aggregate-function' = 'max', 'fields.default-aggregate-function' = 'last_value'",
            "partial update": "'merge-engine' = 'partial-update'",
            "sequence field": "'sequence.field' = 's'",
            "changes": "'log.content' = 'changes', 'changelog-producer' = 'lookup'",
        }.items()
    },
    "whole rows with a log": f"create table db.t ({TYPES}) using lakelog tblproperties "
    "('log-store.enabled' = 'true', 'bucket' = '3')",
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


@pytest.fixture
def lake(tmp_path, request) -> Lake:
    return connect(warehouse=str(tmp_path / "warehouse"))


@pytest.fixture(params=sorted(KINDS))
def written(lake, request) -> Lake:
    lake.sql(KINDS[request.param])
    table = lake.table("db.t")
    for first in (0, 20, 40, 30, 60, 10):
        with table.writer() as writer:
            writer.write(batch(first, 40))
    if table.primary_keys and "merge-engine" not in KINDS[request.param]:
        doomed = batch(5, 3).append_column("_row_kind", pa.array(["-D"] * 3))
        with table.writer() as writer:
            writer.write(doomed)
    return lake


def ours(lake: Lake) -> list[str]:
    return sorted(map(canonical, printed_rows(lake.table("db.t").scan().to_arrow())))


def by_java(java, lake: Lake) -> list[str]:
    names = java.names(lake.warehouse, "db", "t")
    return sorted(canonical(dict(zip(names, row, strict=True))) for row in java.rows(lake.warehouse, "db", "t"))


def test_paimon_java_reads_the_same_rows(written, java) -> None:
    theirs = by_java(java, written)
    assert len(theirs) > 90
    assert theirs == ours(written)


def test_pypaimon_reads_the_same_rows(written, pypaimon_rows) -> None:
    assert sorted(map(canonical, pypaimon_rows(written.warehouse, "db.t"))) == ours(written)


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
            with table.writer() as writer:
                writer.write(pa.table({"id": pa.array(rows, pa.int32()), "c": list(rows.values())}))
        assert ours(lake) == sorted(canonical({"id": i, "c": c}) for i, c in want.items())
    assert {row["id"]: row["c"] for row in flink_sql.rows("select * from db.t")} == want


def test_paimon_goes_on_writing_to_our_table_and_we_go_on_after_it(lake, java) -> None:
    lake.sql("create table db.t (id int, c string, primary key (id)) using lakelog tblproperties ('bucket' = '2')")
    table = lake.table("db.t")
    want: dict[int, str] = {}
    for turn in range(8):
        rows = {i: f"{turn}-{i}" for i in range(turn * 3, turn * 3 + 10)}
        want |= rows
        if turn % 2:
            java.write(lake.warehouse, "db", "t", list(rows.items()))
        else:
            with table.writer() as writer:
                writer.write(pa.table({"id": pa.array(rows, pa.int32()), "c": list(rows.values())}))
        assert ours(lake) == sorted(canonical({"id": i, "c": c}) for i, c in want.items())
    assert dict(java.rows(lake.warehouse, "db", "t")) == want
