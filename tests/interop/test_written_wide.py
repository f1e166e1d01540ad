"""Dynamic buckets that Paimon has begun, and statistics that it reads."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa


def write(table, *batches: pa.Table, **arguments: object) -> None:
    with table.writer(**arguments) as writer:
        for rows in batches:
            writer.write(rows)


def test_dynamic_buckets_go_on_where_paimon_stopped(lake, java) -> None:
    """Paimon's writers put keys into buckets that they choose and write the index; ours keeps every key there."""
    java.create(
        lake.warehouse,
        "t",
        {"id": "INT NOT NULL", "v": "STRING"},
        ["id"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "4"},
        database="db",
    )
    java.write(lake.warehouse, "db", "t", [(i, "java") for i in range(6)], bucket_of=lambda row: row[0] % 2)
    table = lake.table("db.t")
    write(table, pa.table({"id": pa.array(range(3, 12), pa.int32()), "v": ["ours"] * 9}))
    want = sorted([(i, "java") for i in range(3)] + [(i, "ours") for i in range(3, 12)])
    assert sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist()) == want
    assert sorted(java.rows(lake.warehouse, "db", "t")) == want


def test_paimon_java_reads_the_statistics(lake, java) -> None:
    lake.sql("create table db.t (id int, c string, small decimal(9, 2), at timestamp_ntz(6), primary key (id))")
    table, numbers = lake.table("db.t"), range(40)
    some = [None if i % 5 == 0 else i for i in numbers]
    write(
        table,
        pa.table(
            {
                "id": pa.array(numbers, pa.int32()),
                "c": [None if i is None else f"é-{i}" for i in some],
                "small": pa.array([None if i is None else Decimal(f"-{i}.25") for i in some], pa.decimal128(9, 2)),
                "at": pa.array([dt.datetime(2024, 2, 29, 23, 59, 59, i) for i in numbers], pa.timestamp("us")),
            }
        ),
    )
    table.analyze()
    found = java.table(lake.warehouse, "db", "t").statistics().get()
    assert found.mergedRecordCount().getAsLong() == 40
    columns = found.colStats()
    assert columns["id"].max().get() == 39
    assert str(columns["small"].min().get()) == "-39.25" and columns["c"].nullCount().getAsLong() == 8
    assert str(columns["at"].max().get()).startswith("2024-02-29T23:59:59.000039")
