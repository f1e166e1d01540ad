"""Batch SQL and DataFrames on Spark: what is written is read, joined, pruned."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors.exceptions.base import PySparkException

from lakelog import HIGH_THROUGHPUT
from lakelog.errors import InvalidSchema, LakelogError, Unavailable
from lakelog.spark.compat.arrow import map_in_arrow
from lakelog.spark.write import batch_writer

LOG_TABLE = """create table db.log_table (id int, name string, ts timestamp, primary key (id)) using lakelog
tblproperties ('log-store.enabled' = 'true')"""


def rows(frame) -> list[tuple]:
    return sorted(tuple(r) for r in frame.collect())


def test_a_join_of_two_tables_and_a_view_reads_right(lake, spark) -> None:
    lake.sql("create table db.a (id int, x string, primary key (id)) using lakelog")
    lake.sql("create table db.b (id int, y string) using lakelog")
    lake.sql("insert into db.a values (1, 'x1'), (2, 'x2')")
    lake.sql("insert into db.b values (1, 'y1'), (1, 'y2'), (3, 'y3')")
    spark.range(3).selectExpr("cast(id as int) id", "id * 10 as z").createOrReplaceTempView("v")
    joined = lake.sql("select a.x, b.y, v.z from db.a a join db.b b on a.id = b.id left join v on v.id = a.id")
    assert rows(joined) == [("x1", "y1", 10), ("x1", "y2", 10)]


def test_columns_of_a_query_by_name_in_any_order_with_row_kinds_and_defaults(lake) -> None:
    lake.sql("create table db.t (id int, name string default 'none', day date, primary key (id)) using lakelog")
    lake.sql("insert into db.t by name select date'2024-01-01' as DAY, 1 as id")
    lake.sql("insert into db.t by name select 'b' as name, 2 as id union all select 'c', 3")
    lake.sql("insert into db.t by name select 2 as id, 'b' as name, '-D' as `_row_kind`")
    assert rows(lake.sql("select * from db.t")) == [(1, "none", dt.date(2024, 1, 1)), (3, "c", None)]
    with pytest.raises(InvalidSchema, match="has no column 'nme', did you mean 'name'"):
        lake.sql("insert into db.t by name select 4 as id, 'd' as nme")


def test_a_dataframe_is_written_and_read_by_format(lake, spark) -> None:
    lake.sql(
        "create table db.t (id bigint, name string, primary key (id)) using lakelog tblproperties ('bucket' = '3')"
    )
    frame = spark.range(100).selectExpr("id", "concat('n', id) as name")
    frame.write.format("lakelog").mode("append").save("db.t")
    back = spark.read.format("lakelog").load("db.t")
    assert back.where("id = 42").collect()[0].name == "n42"
    assert back.count() == 100


@pytest.mark.parametrize("log", ["false", "true"])
def test_a_write_with_a_failed_task_has_no_effect(lake, spark, log) -> None:
    lake.sql(
        "create table db.t (id bigint, name string, primary key (id)) using lakelog "
        f"tblproperties ('bucket' = '2', 'log-store.enabled' = '{log}')"
    )
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "if(id = 777, raise_error('bad row'), 'n') as name")
    with pytest.raises(PySparkException, match="bad row") as raised:
        lake.write(frame, "db.t")
    assert raised.value.__cause__ is not raised.value
    assert lake.table("db.t").scan().to_arrow().num_rows == 0
    lake.write(frame.where("id < 500"), "db.t")
    assert lake.sql("select count(*), sum(id) from db.t").collect()[0][:] == (500, sum(range(500)))
    if log == "true":
        seen = {}
        for batch in lake.table("db.t").tail(start="earliest", stop="latest"):
            for row in batch.to_pylist():
                if row["_row_kind"] in ("+I", "+U"):
                    seen[row["id"]] = row["name"]
                else:
                    seen.pop(row["id"], None)
        assert set(seen) == set(range(500))


@pytest.mark.parametrize("way", ["lake", "format"])
def test_a_job_that_failed_leaves_no_file_of_its_other_tasks(lake, spark, way) -> None:
    lake.sql(
        "create table db.t (id bigint, text string) using lakelog "
        "tblproperties ('bucket' = '2', 'bucket-key' = 'id', 'write-buffer-size' = '1 mb')"
    )
    directory = Path(lake.table("db.t").logical.path)

    def held_up(batches):
        """The first task fails when the second one, which is slow, has written files."""
        first = TaskContext.get().partitionId() == 0
        while first and not list(directory.glob("bucket-*/*")):
            time.sleep(0.02)
        if first:
            raise RuntimeError("bad task")
        for batch in batches:
            yield batch
            time.sleep(0.3)

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    try:
        rows = spark.range(0, 60_000, 1, 2).selectExpr("id", "repeat(sha2(cast(id as string), 512), 8) as text")
        frame = map_in_arrow(rows, held_up, rows.schema)
        with pytest.raises(PySparkException, match="bad task"):
            if way == "lake":
                lake.write(frame, "db.t")
            else:
                frame.write.format("lakelog").mode("append").save("db.t")
        assert list(directory.glob("bucket-*/*")) == []
        time.sleep(3)
        assert list(directory.glob("bucket-*/*")) == [], "no task goes on"
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert lake.table("db.t").latest_snapshot() is None


def test_a_session_for_narrow_rows_limits_the_rows_of_a_batch_and_not_its_bytes(lake, spark) -> None:
    before = {key: spark.conf.get(key) for key in HIGH_THROUGHPUT}
    for key, value in HIGH_THROUGHPUT.items():
        spark.conf.set(key, value)
    try:
        given = spark.range(0, 40_000, 1, 1).selectExpr("id", "repeat('x', 1500) as text")
        sizes = map_in_arrow(given, lambda bs: (pa.table({"n": [b.num_rows]}).to_batches()[0] for b in bs), "n long")
        assert [row.n for row in sizes.collect()] == [16_384, 16_384, 7_232]  # 25 MB each: no limit of 16 MiB
        lake.sql("create table db.t (id bigint, text string, primary key (id)) using lakelog")
        lake.write(given, "db.t")
        found = lake.sql("select count(*), sum(id), min(length(text)), max(length(text)) from db.t")
        assert rows(found) == [(40_000, sum(range(40_000)), 1500, 1500)]
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def test_a_frame_of_no_rows_is_written_and_columns_of_any_name(lake, spark) -> None:
    lake.sql("create table db.t (id bigint, `a.b c` string, primary key (id)) using lakelog")
    frame = spark.range(3).selectExpr("id", "'x' as `a.b c`")
    lake.write(frame.where("id > 5"), "db.t")
    assert lake.sql("select * from db.t").collect() == []
    lake.write(frame, "db.t")
    assert rows(lake.sql("select * from db.t")) == [(0, "x"), (1, "x"), (2, "x")]


@pytest.mark.local_only("breaks the commit inside of the driver's process; on Connect the server commits")
def test_a_commit_that_fails_before_its_decision_takes_the_rows_out_of_the_log(lake, spark, monkeypatch) -> None:
    lake.sql(LOG_TABLE)

    def fails(*given: object) -> None:
        raise Unavailable("the storage is away")

    frame = spark.range(10).selectExpr("cast(id as int) as id", "'n' as name")
    with monkeypatch.context() as patched:
        patched.setattr(batch_writer, "_commit", fails)
        with pytest.raises(Unavailable, match="away"):
            lake.write(frame, "db.log_table", missing="null")
    seen: set[int] = set()
    for batch in lake.table("db.log_table").tail(start="earliest", stop="latest"):
        for row in batch.to_pylist():
            (seen.add if row["_row_kind"] in ("+I", "+U") else seen.discard)(row["id"])
    assert seen == set()
    assert lake.table("db.log_table").scan().to_arrow().num_rows == 0


def test_two_frames_of_a_snapshot_are_joined_by_their_columns_and_names_have_backticks(lake, spark) -> None:
    lake.sql("create table db.t (id bigint, `c``d` int, primary key (id)) using lakelog")
    lake.write(spark.range(6000).selectExpr("id", "cast(id % 7 as int) as `c``d`"), "db.t")
    lake.sql("insert into db.t select id + 6000, `c``d` from db.t where id < 10")
    a, b = lake.table("db.t").to_spark(), lake.table("db.t").to_spark()
    assert a.join(b, a.id == b.id + 1).select(a.id, b.id).count() == 6009
    c, d = lake.sql("select * from db.t"), lake.sql("select * from db.t")
    assert c.join(d, c.id == d["`c``d`"]).count() == 6010


def test_files_are_read_while_the_log_is_away(lake, tmp_path: Path) -> None:
    lake.sql(LOG_TABLE)
    lake.sql("insert into db.log_table values (1, 'a', null), (2, 'b', null)")
    log = Path(lake.table("db.log_table").log.address)
    kept = log.read_bytes()
    log.write_bytes(b"no log")
    try:
        assert lake.sql("select count(*) from db.log_table").collect()[0][0] == 2
        assert rows(lake.sql("select id from db.log_table /*+ OPTIONS('read.mode' = 'file') */ where id > 1")) == [(2,)]
        assert lake.sql("explain select * from db.log_table").collect()
        with pytest.raises(LakelogError):
            lake.sql("select * from db.log_table /*+ OPTIONS('read.mode' = 'log') */")
    finally:
        log.write_bytes(kept)
