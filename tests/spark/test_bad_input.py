"""Bad input: one clear error that names the key, the value and what to do, and nothing half-written."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from pyspark.errors.exceptions.base import PySparkException

from lakelog.errors import (
    InvalidRequest,
    InvalidSchema,
    Unavailable,
    UnsupportedFeature,
    UnsupportedStatement,
)

GOOD = (
    "create table db.t (id int, name string, primary key (id)) using lakelog "
    "tblproperties ('log-store.enabled' = 'true')"
)


@pytest.fixture
def db(lake):
    return lake


def nothing_made(lake) -> bool:
    return lake.list_tables() == [] and not list(Path(lake.warehouse).rglob("schema-*")) + list(
        Path(lake.warehouse).rglob("*.sqlite")
    )


def test_a_broker_that_is_away_makes_no_table(db) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(Unavailable) as raised:
        db.sql(
            f"create table db.t (id int) using lakelog tblproperties ('log-store.enabled' = 'true', "
            f"'log-store.address' = '{address}')"
        )
    assert address in str(raised.value) and "check that the broker runs" in str(raised.value)
    assert nothing_made(db)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("insert into db.t values (null, 'a')", "NULL in column 'id' of table db.t, which is primary key"),
        ("insert into db.t values (1)", "has 1 value, and there are 2 columns: id, name"),
        ("insert into db.t values (1, 'a', 3)", "has 3 values, and there are 2 columns: id, name"),
    ],
)
def test_rows_that_do_not_fit_write_nothing(db, statement, said) -> None:
    db.sql(GOOD)
    with pytest.raises((InvalidSchema, PySparkException)) as raised:
        db.sql(statement)
    assert said in str(raised.value)
    assert db.table("db.t").scan().to_arrow().num_rows == 0
    assert list(db.table("db.t").tail("earliest", stop="latest")) == []


def test_a_frame_of_another_type_is_refused_before_a_task_runs(db, spark) -> None:
    db.sql(GOOD)
    frame = spark.sql("select 'one' as id, 'a' as name")
    with pytest.raises(PySparkException, match="column 'id' of table db.t is int32, but the rows have string"):
        frame.write.format("lakelog").mode("append").save("db.t")


def test_an_unsupported_type_is_named(db) -> None:
    with pytest.raises((UnsupportedStatement, UnsupportedFeature, InvalidSchema)) as raised:
        db.sql("create table db.t (id int, span interval day) using lakelog")
    assert "interval" in str(raised.value).lower()
    assert nothing_made(db)


def test_malformed_sql_points_at_its_place(db) -> None:
    with pytest.raises(UnsupportedStatement) as raised:
        db.sql("create table db.t (id int,, name string) using lakelog")
    assert "line 1, column 27" in str(raised.value) and "^" in str(raised.value)
    assert nothing_made(db)


def test_a_log_read_of_a_table_without_log_says_what_to_do(db) -> None:
    db.sql("create table db.t (id int) using lakelog")
    with pytest.raises((InvalidRequest, PySparkException), match="log-store.enabled"):
        db.sql("select * from db.t /*+ OPTIONS('read.mode'='log') */").writeStream.format(
            "noop"
        ).start().processAllAvailable()


@pytest.mark.parametrize("log", ["", " tblproperties ('log-store.enabled' = 'true')"])
def test_a_value_that_no_reader_could_take_is_refused_before_it_is_written(db, log) -> None:
    db.sql(f"create table db.v (id int, name string, until timestamp, primary key (id)) using lakelog{log}")
    wrong = {"cast(X'ff' as string), null": r"column 'name' of table db.v holds text that is not UTF-8: b'\xff'"}
    if log:
        wrong["'a', timestamp'9999-12-31 23:59:59 America/New_York'"] = "10000-01-01 04:59:59"
    for values, said in wrong.items():
        with pytest.raises(InvalidSchema, match=re.escape(said)):
            db.sql(f"insert into db.v select 1, {values}")
    assert db.table("db.v").scan().to_arrow().num_rows == 0
    db.sql("insert into db.v select 1, 'a', timestamp'9999-12-30 00:00:00'")
    assert db.table("db.v").scan().to_arrow().num_rows == 1


def test_a_stream_stops_at_text_that_is_not_utf8(db, tmp_path) -> None:
    db.sql("create table db.s (id bigint, name string) using lakelog tblproperties ('log-store.enabled' = 'true')")
    rows = db.spark.readStream.format("rate").load().selectExpr("value as id", "cast(X'ff' as string) as name")
    query = rows.writeStream.format("lakelog").option("checkpointLocation", str(tmp_path / "c")).start("db.s")
    with pytest.raises(PySparkException, match="not UTF-8"):
        query.awaitTermination(120)
    assert db.table("db.s").scan().to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("spark.read.format('lakelog').load()", "InvalidOption: the table is missing"),
        ("spark.readStream.format('lakelog').load()", "InvalidOption: the table is missing"),
        ("spark.range(1).write.format('lakelog').mode('append').save()", "InvalidOption: the table is missing"),
        ("spark.range(1).write.format('lakelog').mode('append').save('db.no')", "NotFound: table db.no does not exist"),
        (
            "spark.read.format('lakelog').option('read.mode', 'x').load('db.t')",
            "InvalidOption: option 'read.mode' = 'x'",
        ),
        (
            "spark.range(1).selectExpr('uuid() as id').write.format('lakelog').mode('append').save('db.t')",
            "InvalidSchema",
        ),
    ],
)
def test_an_error_of_the_data_source_is_ours_without_a_traceback(db, spark, use, said) -> None:
    db.sql(GOOD)
    with pytest.raises(PySparkException) as raised:
        frame = eval(use, {"spark": spark})
        frame.collect()
    assert f"lakelog.errors.{said}" in str(raised.value)
    assert "Traceback" not in str(raised.value)
