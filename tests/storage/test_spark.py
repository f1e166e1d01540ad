"""Spark's executors write and read a table on an object store; no plan and no page shows how they reach it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog import Lake, connect
from lakelog.errors import InvalidOption, InvalidRequest
from lakelog.spark.session.session import local_session
from seen_batches import SeenBatches
from servers.s3_server import S3Server

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = local_session(settings={"spark.sql.session.timeZone": "UTC"})
    yield session
    session.stop()


@pytest.fixture
def lake(spark: SparkSession, s3_server: S3Server) -> Iterator[Lake]:
    place = f"s3://{s3_server.new_bucket()}/warehouse"
    with connect(spark, warehouse=place, storage_options=s3_server.options) as opened:
        opened.sql("create table db.t (id bigint, name string, primary key (id)) using lakelog")
        yield opened


def test_executors_write_and_read_a_log_in_files(lake: Lake, tmp_path: Path) -> None:
    lake.sql(
        "create table db.l (id bigint, name string, primary key (id)) using lakelog "
        "tblproperties ('log-store.enabled' = 'true', 'bucket' = '2')"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("".join(f'{{"id": {n}, "name": "n{n}"}}\n' for n in range(2000)))
    rows = lake.spark.readStream.schema("id bigint, name string").json(str(tmp_path / "in"))
    writing = lake.write_stream(rows, "db.l", str(tmp_path / "out"))
    writing.processAllAvailable()
    writing.stop()
    lake.sql("insert into db.l values (-1, 'batch')")
    found = lake.sql("select count(*) as n, max(case when id = -1 then name end) as one from db.l").collect()[0]
    assert (found["n"], found["one"]) == (2001, "batch")
    seen = SeenBatches(tmp_path / "seen")
    log = lake.sql("select id, name from db.l /*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */")
    reading = log.writeStream.foreachBatch(seen.take).trigger(availableNow=True).start()
    reading.awaitTermination()
    assert sorted(row["id"] for row in seen.rows()) == [-1, *range(2000)]


def test_a_query_and_an_insert_run_on_executors(lake: Lake, s3_server: S3Server) -> None:
    lake.sql("insert into db.t select id, concat('n', id) from range(1000)")
    lake.sql("insert into db.t values (1, 'new')")
    found = lake.sql("select count(*) as n, max(case when id = 1 then name end) as one from db.t where id < 500")
    assert found.collect()[0].asDict() == {"n": 500, "one": "new"}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        found.explain(True)
    pages = [shown.getvalue(), str(lake.table("db.t").describe(extended=True)), repr(lake.table("db.t"))]
    pages.append(str(lake.sql("show create table db.t").to_pylist()))
    for page in pages:
        assert s3_server.secret_key not in page
        assert s3_server.access_key not in page
    assert b"s3." not in lake.table("db.t").logical.io.read(f"{lake.table('db.t').path}/schema/schema-0")


def test_a_reader_can_bring_its_own_storage_options(lake: Lake, spark: SparkSession, s3_server: S3Server) -> None:
    lake.sql("insert into db.t values (1, 'a')")
    reader = spark.read.format("lakelog").options(**s3_server.options)
    assert reader.load(lake.table("db.t").path).collect()[0].asDict() == {"id": 1, "name": "a"}


def test_a_table_takes_no_storage_option_and_the_value_is_not_shown(lake: Lake) -> None:
    with pytest.raises(InvalidOption, match=r"s3\.secret-key") as raised:
        lake.sql("create table db.u (id int) using lakelog tblproperties ('s3.secret-key' = 'hush')")
    assert "hush" not in str(raised.value)


def test_a_stream_without_a_checkpoint_gets_an_error_with_the_option(lake: Lake, spark: SparkSession, tmp_path) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("value as id", "'r' as name").where("id < 5")
    with pytest.raises(InvalidRequest, match="checkpoint"):
        lake.write_stream(frame, "db.t")
    query = lake.write_stream(frame, "db.t", str(tmp_path / "checkpoint"))
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
