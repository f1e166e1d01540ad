"""What Spark's own Parquet scan gives is what lakelog's reader gives, row by row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from golden.test_golden_scan import DATA, TABLES
from lakelog.filestore.read.native_files import pick_native
from lakelog.spark.compat.arrow import collected
from lakelog.spark.native.native_scan import native_frame
from lakelog.spark.native.position_filter import SupersededRowsCache
from lakelog.spark.runtime.types import arrow_for_spark, conform, spark_schema
from lakelog.table.open import open_by_path
from lakelog.table.read.file_scan import Scan
from limits import limit
from plans import plans_of

READ_BY_LAKELOG = {
    "aggregation", "partial_update", "sequence_field",  # rows are folded, not chosen
    "types_avro", "types_orc", "types_parquet", "variants",  # formats; INT96, TIME and VARIANT
    "append_unaware", "sp_evolve",  # files that could be those of another table
}  # fmt: skip
"""Golden tables in which no file is read by Spark when all columns are asked for."""


@pytest.fixture(autouse=True)
def _natively(monkeypatch) -> None:
    """Tables of a few thousand rows are read by Spark, too."""
    limit(monkeypatch, native_rows=2000)


def as_text(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


def by_spark(frame: Any) -> list[str]:
    return as_text(collected(frame))


def by_lakelog(scan: Scan) -> list[str]:
    target = arrow_for_spark(spark_schema(scan.schema))
    return as_text(pa.Table.from_batches([conform(batch, target) for batch in scan.to_batches()], target))


def native_files(scan: Scan) -> int:
    store = scan.table.store
    return pick_native(scan.plan(), scan.schema.names, store.schemas, store.paths).file_count


def agreed(spark: Any, scan: Scan, condition: str | None = None) -> Sequence[str]:
    """The rows, the same by both ways; some files are read by Spark."""
    frame = native_frame(spark, scan, scan.plan(), SupersededRowsCache())
    assert frame is not None
    rows = by_spark(frame if condition is None else frame.where(condition))
    assert rows == by_lakelog(scan)
    return rows


def opened(name: str) -> Scan:
    return Scan(open_by_path(str(DATA / name / "g.db" / name), {}, "read"))


def test_tables_of_paimon_are_read_by_spark_as_lakelog_reads_them(lake, spark) -> None:
    found = {name: opened(name) for name in TABLES}
    assert {name for name, scan in found.items() if not native_files(scan)} == READ_BY_LAKELOG
    for name in TABLES:
        if name not in READ_BY_LAKELOG:
            agreed(spark, found[name])
    types = found["types_parquet"]
    # Spark pads CHAR, Arrow has the text as it is stored
    agreed(spark, types.select([n for n in types.schema.names if n not in ("tm", "t9", "ch")]))


def test_rows_that_merges_and_deletes_hide_are_left_out_and_filters_reach_the_files(lake, spark) -> None:
    lake.sql(
        "create table db.t (`Day x` string, id bigint, f double, d decimal(20,3), ts timestamp, n timestamp_ntz, "
        "s struct<x:int,y:array<string>>, primary key (`Day x`, id)) using lakelog partitioned by (`Day x`) "
        "tblproperties ('bucket' = '2', 'write-only' = 'true')"
    )
    wide = (
        "select concat('d ', id % 3), id + {shift}, if(id % 7 = 0, double('nan'), if(id % 5 = 0, -0.0D, id)), id / 8, "
        "timestamp'1500-01-01 00:00:00' + make_interval(0, 0, 0, id), timestamp_ntz'1969-12-31 23:59:59.999999', "
        "if(id % 11 = 0, null, struct(cast(id as int), array('a', null))) from range({count})"
    )
    lake.sql("insert into db.t " + wide.format(shift=0, count=3000))
    lake.sql("insert into db.t " + wide.format(shift=1500, count=3000))
    gone = spark.createDataFrame([("d 1", 301, "-D")], "`Day x` string, id bigint, _row_kind string")
    for name, kind in (("f", "double"), ("d", "decimal(20,3)"), ("ts", "timestamp"), ("n", "timestamp_ntz")):
        gone = gone.selectExpr("*", f"cast(null as {kind}) as {name}")
    gone = gone.selectExpr("*", "cast(null as struct<x:int,y:array<string>>) as s").coalesce(1)
    gone.write.format("lakelog").mode("append").save("db.t")
    table = lake.table("db.t")
    rows = agreed(spark, table.scan())
    assert len(rows) == 4499
    assert len(agreed(spark, table.scan(["f", "Day x"]))) == 4499
    # Spark has NaN above all numbers; the statistics of the files leave it out
    larger = lake.sql("select count(*), count_if(isnan(f)) from db.t where f > 100000").first()
    assert larger[0] == larger[1] > 0
    plan = plans_of(lake.sql("select id from db.t where id > 4 and s.x = 5"))
    assert "GreaterThan(id,4)" in plan and "EqualTo(s.x,5)" in plan
    assert lake.sql("select id from db.t where id = 300").count() == 1
    point = lake.sql("select ts, s from db.t where id in (5, 6) and `Day x` = 'd 2'")
    assert "LocalTableScan" in plans_of(point)
    assert [tuple(row) for row in point.collect()] == [(dt.datetime(1500, 1, 6), (5, ["a", None]))]
    assert lake.sql("select id from db.t where id = 301").count() == 0
    assert table.to_spark(["d"], "id < 10").count() == 10
    assert agreed(spark, table.scan(snapshot_id=1)) != rows


def test_a_frame_reports_a_missing_file_of_its_snapshot(lake, spark) -> None:
    lake.sql("create table db.t (id bigint, name string) using lakelog")
    lake.sql("insert into db.t select id, 'n' from range(5000)")
    frame = lake.sql("select * from db.t")
    lake.table("db.t").truncate()
    lake.table("db.t").expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match="FILE_NOT_EXIST"):
            frame.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert lake.sql("select * from db.t").count() == 0
