"""Streams of the log that run over each kind of ALTER TABLE: nothing is lost, nothing has a wrong name or type."""

from __future__ import annotations

import json
import os

import pytest
from pyspark.errors import StreamingQueryException

CREATE = """create table db.{name} (id bigint, n int, o int, s string, primary key (id)) using lakelog tblproperties
('log-store.enabled' = 'true', 'commit.interval' = '200 ms', 'log-store.data-format' = '{form}',
 'alter-column-null-to-not-null.disabled' = 'false')"""
EARLIEST = "/*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */"

SAME = ["id", "n", "o", "s"]
ALTERS = {
    # the change, the columns of a new row, what an old stream sees of it, what a new stream sees of both rows
    "rename": ("rename column n to m", "(2, 20, 21, 'b')", (2, 20, 21, "b"), ["id", "m", "o", "s"], (1, 10, 11, "a")),
    "key": ("rename column id to k", "(2, 20, 21, 'b')", (2, 20, 21, "b"), ["k", "n", "o", "s"], (1, 10, 11, "a")),
    "swap": (
        "rename column n to t; alter table db.t rename column o to n; alter table db.t rename column t to o",
        "(2, 20, 21, 'b')", (2, 20, 21, "b"), ["id", "o", "n", "s"], (1, 10, 11, "a"),
    ),
    "wider": ("alter column n type bigint", "(2, 20, 21, 'b')", (2, 20, 21, "b"), SAME, (1, 10, 11, "a")),
    "not_null": ("alter column n set not null", "(2, 20, 21, 'b')", (2, 20, 21, "b"), SAME, (1, 10, 11, "a")),
    "reorder": ("alter column s first", "('b', 2, 20, 21)", (2, 20, 21, "b"), SAME, (1, 10, 11, "a")),
    "added": (
        "add column n2 int after id", "(2, 99, 20, 21, 'b')", (2, 20, 21, "b"), ["id", "n2", *SAME[1:]],
        (1, None, 10, 11, "a"),
    ),
    "dropped": ("drop column n", "(2, 21, 'b')", (2, None, 21, "b"), ["id", "o", "s"], (1, 11, "a")),
    "used_again": (
        "drop column n; alter table db.t add column n string", "(2, 21, 'b', 'x')", (2, None, 21, "b"), SAME,
        (1, None, 11, "a"),
    ),
}  # fmt: skip
NEW = {"used_again": (2, "x", 21, "b"), "added": (2, 99, 20, 21, "b"), "dropped": (2, 21, "b")}
"""What a new stream sees of the new row, where that is not what an old one sees."""


def found(lake, name: str, columns: list[str]) -> list[tuple]:
    return sorted(tuple(r) for r in lake.spark.sql(f"select {', '.join(columns)} from {name}").collect())


def follow(lake, table: str, name: str):
    frame = lake.sql(f"select * from db.{table} {EARLIEST}")
    return frame.writeStream.format("memory").queryName(name).outputMode("append").start()


@pytest.mark.timeout(1_200)  # eighteen queries, each of which starts processes of Python on an older Spark
@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
def test_a_stream_runs_over_each_kind_of_alter(lake, form: str) -> None:
    for kind, (change, new, seen, columns, before) in ALTERS.items():
        lake.sql(CREATE.format(name=kind, form=form))
        old = follow(lake, kind, f"old_{kind}")
        lake.sql(f"insert into db.{kind} values (1, 10, 11, 'a')")
        old.processAllAvailable()
        lake.sql(f"alter table db.{kind} {change}".replace("db.t ", f"db.{kind} "))
        lake.sql(f"insert into db.{kind} values {new}")
        old.processAllAvailable()
        assert old.isActive and old.exception() is None
        old.stop()
        assert found(lake, f"old_{kind}", ["id", "n", "o", "s"]) == [(1, 10, 11, "a"), seen], kind
        later = follow(lake, kind, f"new_{kind}")
        later.processAllAvailable()
        later.stop()
        assert found(lake, f"new_{kind}", columns) == [before, NEW.get(kind, (2, 20, 21, "b"))], kind


def test_a_value_that_a_running_stream_cannot_hold_stops_it_and_a_restart_goes_on(lake, tmp_path) -> None:
    lake.sql(CREATE.format(name="t", form="debezium-json"))

    def start():
        frame = lake.sql(f"select * from db.t {EARLIEST}").selectExpr("cast(n as string) n", "_row_kind")
        return (
            frame.writeStream.format("json")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "cp"))
            .start()
        )

    query = start()
    lake.sql("insert into db.t values (1, 10, 11, 'a')")
    query.processAllAvailable()
    lake.sql("alter table db.t alter column n type bigint; insert into db.t values (2, 5000000000, 21, 'b')")
    with pytest.raises(StreamingQueryException, match=r"'n' was changed from INT to BIGINT.*or restart the query"):
        query.processAllAvailable()
    query = start()
    query.processAllAvailable()
    query.stop()
    rows = lake.spark.read.json(str(tmp_path / "out")).collect()
    assert sorted((r.n, r._row_kind) for r in rows) == [("10", "+I"), ("5000000000", "+I")]


def test_a_stream_that_writes_goes_on_over_a_rename(lake, spark, tmp_path) -> None:
    lake.sql(CREATE.format(name="t", form="debezium-json"))

    def source(name: str, number: int) -> None:
        os.makedirs(tmp_path / "in", exist_ok=True)
        with open(tmp_path / "in" / f"{name}.part", "w", encoding="utf-8") as file:
            file.write(json.dumps({"id": number, "n": number * 10, "o": None, "s": "w"}))
        os.rename(tmp_path / "in" / f"{name}.part", tmp_path / "in" / f"{name}.json")

    source("1", 1)
    reader = spark.readStream.schema("id bigint, n int, o int, s string").option("pathGlobFilter", "*.json")
    query = lake.write_stream(reader.json(str(tmp_path / "in")), "db.t", str(tmp_path / "cp"))
    query.processAllAvailable()
    lake.sql("alter table db.t rename column n to m; alter table db.t rename column o to n")
    lake.sql("alter table db.t alter column m type bigint; insert into db.t values (5, 50, 51, 'b')")
    source("2", 2)
    query.processAllAvailable()
    query.stop()
    later = follow(lake, "t", "rows_of_t")
    later.processAllAvailable()
    later.stop()
    wanted = [(1, 10, None, "w"), (2, 20, None, "w"), (5, 50, 51, "b")]
    assert found(lake, "rows_of_t", ["id", "m", "n", "s"]) == wanted
    lake.table("db.t").seal()
    assert sorted(tuple(r) for r in lake.sql("select id, m, n, s from db.t").collect()) == wanted
