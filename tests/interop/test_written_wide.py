"""Overwrites, dynamic buckets, thin files, ORC, Avro and cut statistics, read by Paimon's Java core and by pypaimon."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog import Lake, connect
from printed import canonical, printed_rows

TYPES = (
    "p string, id int, t tinyint, s smallint, l bigint, f float, d double, c string, small decimal(9, 2), "
    "big decimal(30, 5), day date, ms timestamp_ntz(3), at timestamp_ntz(6), bin binary, tags array<string>, "
    "named map<string, int>, info struct<a: int, b: string>"
)
OPTIONS = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    "avro": {"file.format": "avro"},
    "thin": {"data-file.thin-mode": "true"},
    "levels": {
        "file.format.per.level": "0:avro,5:parquet",
        "file.suffix.include.compression": "true",
        "metadata.stats-mode.per.level": "0:none",
    },
    "no statistics": {"metadata.stats-mode": "none", "metadata.stats-dense-store": "false"},
    "few statistics": {"fields.c.stats-mode": "truncate(2)", "fields.d.stats-mode": "none"},
    "directory": {"data-file.path-directory": "data"},
}


def batch(p: str, first: int, count: int, word: str) -> pa.Table:
    ids = list(range(first, first + count))
    some = [None if i % 5 == 0 else i for i in ids]

    def each(make, kind: pa.DataType) -> pa.Array:
        return pa.array([None if i is None else make(i) for i in some], kind)

    return pa.table(
        {
            "p": [p] * count,
            "id": pa.array(ids, pa.int32()),
            "t": each(lambda i: i % 100 - 50, pa.int8()),
            "s": each(lambda i: -i, pa.int16()),
            "l": each(lambda i: i << 40, pa.int64()),
            "f": each(lambda i: i / 4, pa.float32()),
            "d": each(lambda i: -i / 8, pa.float64()),
            "c": each(lambda i: f"{word}-😀é-{i}", pa.string()),
            "small": each(lambda i: Decimal(f"-{i}.25"), pa.decimal128(9, 2)),
            "big": each(lambda i: Decimal(f"{i}12345678901234567890.12345"), pa.decimal128(30, 5)),
            "day": each(lambda i: dt.date(1960, 1, 1) + dt.timedelta(days=i * 300), pa.date32()),
            "ms": each(lambda i: dt.datetime(2024, 2, 29, 23, 59, 59, i * 1000), pa.timestamp("ms")),
            "at": each(lambda i: dt.datetime(2024, 2, 29, 23, 59, 59, i), pa.timestamp("us")),
            "bin": each(lambda i: bytes([i % 256, 0]), pa.binary()),
            "tags": each(lambda i: ["a", None, str(i)][: i % 4], pa.list_(pa.string())),
            "named": each(lambda i: [(f"k{i}", i), ("n", None)][: i % 3], pa.map_(pa.string(), pa.int32())),
            "info": each(
                lambda i: {"a": i, "b": None}, pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])
            ),
        }
    )


@pytest.fixture
def lake(tmp_path) -> Lake:
    return connect(warehouse=str(tmp_path / "warehouse"))


def make(lake: Lake, bucket: int, **options: str):
    given = ", ".join(f"'{k}' = '{v}'" for k, v in {"bucket": str(bucket), **options}.items())
    lake.sql(
        f"create table db.t ({TYPES}, primary key (p, id)) using lakelog partitioned by (p) tblproperties ({given})"
    )
    return lake.table("db.t")


def write(table, *batches: pa.Table, **arguments: object) -> None:
    with table.writer(**arguments) as writer:
        for rows in batches:
            writer.write(rows)


def ours(table) -> list[str]:
    return sorted(map(canonical, printed_rows(table.scan().to_arrow())))


def by_java(java, lake: Lake) -> list[str]:
    names = java.names(lake.warehouse, "db", "t")
    return sorted(canonical(dict(zip(names, row, strict=True))) for row in java.rows(lake.warehouse, "db", "t"))


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("bucket", [2, -1], ids=["fixed", "dynamic"])
def test_paimon_java_reads_the_same_rows(lake, java, kind: str, bucket: int) -> None:
    table = make(lake, bucket, **OPTIONS[kind], **{"dynamic-bucket.target-row-num": "15"})
    write(table, batch("a", 0, 40, "first"), batch("b/=ä", 0, 10, "b"))
    write(table, batch("a", 20, 40, "second"))
    table.compact()
    write(table, batch("a", 30, 5, "third"), batch("b/=ä", 3, 2, "later"))
    write(table, batch("a", 3, 2, "x").append_column("_row_kind", pa.array(["-D"] * 2)))
    assert len(ours(table)) == 68
    assert by_java(java, lake) == ours(table)
    write(table, batch("b/=ä", 5, 9, "new"), overwrite=True)
    assert len(ours(table)) == 67
    assert by_java(java, lake) == ours(table)


@pytest.mark.parametrize("kind", ["parquet", "thin", "orc", "avro"])
@pytest.mark.parametrize("bucket", [2, -1], ids=["fixed", "dynamic"])
def test_pypaimon_reads_the_same_rows(lake, pypaimon_rows, kind: str, bucket: int) -> None:
    table = make(lake, bucket, **OPTIONS[kind], **{"dynamic-bucket.target-row-num": "15"})
    write(table, batch("a", 0, 40, "first"), batch("b", 0, 10, "b"))
    write(table, batch("b", 5, 9, "new"), overwrite=True)
    write(table, batch("a", 20, 40, "second"))
    assert len(ours(table)) == 69
    assert sorted(map(canonical, pypaimon_rows(lake.warehouse, "db.t"))) == ours(table)


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
    table = make(lake, 2)
    write(table, batch("a", 0, 40, "first"))
    table.analyze()
    found = java.table(lake.warehouse, "db", "t").statistics().get()
    assert found.mergedRecordCount().getAsLong() == 40
    columns = found.colStats()
    assert columns["id"].max().get() == 39 and columns["p"].distinctCount().getAsLong() == 1
    assert str(columns["small"].min().get()) == "-39.25" and columns["c"].nullCount().getAsLong() == 8
    assert str(columns["at"].max().get()).startswith("2024-02-29T23:59:59.000039")
