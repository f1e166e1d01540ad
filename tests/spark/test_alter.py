"""ALTER TABLE with Spark: batch reads and writes after it, and streams that run over it."""

from __future__ import annotations

import json
import os

CREATE = """create table db.t (id bigint, name string, primary key (id)) using lakelog
tblproperties ('log-store.enabled' = '{log}', 'commit.interval' = '200 ms')"""


def rows(frame) -> list[tuple]:
    return sorted(tuple(r) for r in frame.collect())


def source(directory, name: str, ids: list[int]) -> None:
    """Adds a file to a directory that a stream reads."""
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/{name}.part", "w", encoding="utf-8") as file:
        file.write("\n".join(json.dumps({"id": i, "name": f"n{i}"}) for i in ids))
    os.rename(f"{directory}/{name}.part", f"{directory}/{name}.json")


def test_rows_inserted_before_and_after_are_selected_with_the_new_columns(lake) -> None:
    lake.sql("create database db")
    lake.sql(CREATE.format(log="false"))
    lake.sql("insert into db.t values (1, 'a'), (2, 'b')")
    lake.sql("alter table db.t add columns (n int comment 'how many' after id, extra string)")
    lake.sql("insert into db.t values (2, 20, 'bb', 'x')")
    lake.sql("alter table db.t rename column name to title; alter table db.t alter column n type bigint")
    lake.sql("insert into db.t (id, n) values (3, 5000000000)")
    assert rows(lake.sql("select id, n, title, extra from db.t")) == [
        (1, None, "a", None), (2, 20, "bb", "x"), (3, 5000000000, None, None),
    ]  # fmt: skip
    assert rows(lake.sql("select title from db.t where n > 10 and extra = 'x'")) == [("bb",)]
    lake.sql("alter table db.t drop column title; alter table db.t add column title string")
    assert rows(lake.sql("select id, title from db.t")) == [(1, None), (2, None), (3, None)]
    described = [tuple(r.values()) for r in lake.sql("describe db.t").to_pylist()]
    assert described[:2] == [("id", "bigint", ""), ("n", "bigint", "how many")]
    lake.sql("alter table db.t rename to s")
    assert lake.sql("select count(*) from db.s").first()[0] == 3


def test_a_stream_that_reads_the_log_goes_on_and_a_new_one_sees_the_new_column(lake, tmp_path) -> None:
    lake.sql("create database db")
    lake.sql(CREATE.format(log="true"))
    hint = "/*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */"

    def start(name: str):
        frame = lake.sql(f"select * from db.t {hint}")
        return frame.writeStream.format("memory").queryName(name).outputMode("append").start()

    old = start("old_rows")
    lake.sql("insert into db.t values (1, 'a')")
    old.processAllAvailable()
    lake.sql("alter table db.t add column n int; alter table db.t drop column name")
    lake.sql("insert into db.t values (2, 20)")
    old.processAllAvailable()
    new = start("new_rows")
    new.processAllAvailable()
    assert rows(lake.spark.sql("select id, name from old_rows")) == [(1, "a"), (2, None)]
    assert rows(lake.spark.sql("select id, n from new_rows")) == [(1, None), (2, 20)]
    assert old.isActive and old.exception() is None


def test_a_stream_that_writes_goes_on_with_the_columns_that_it_has(lake, spark, tmp_path) -> None:
    lake.sql("create database db")
    lake.sql(CREATE.format(log="true"))
    source(tmp_path / "in", "1", [1])
    reader = spark.readStream.schema("id bigint, name string").option("pathGlobFilter", "*.json")
    query = lake.write_stream(reader.json(str(tmp_path / "in")), "db.t", str(tmp_path / "cp"))
    query.processAllAvailable()
    lake.sql("alter table db.t add column n int")
    lake.sql("insert into db.t values (5, 'b', 50)")
    source(tmp_path / "in", "2", [2])
    query.processAllAvailable()
    query.stop()
    lake.table("db.t").seal()
    lake.table("db.t").compact()
    assert rows(lake.sql("select id, name, n from db.t")) == [(1, "n1", None), (2, "n2", None), (5, "b", 50)]
    assert lake.table("db.t").latest_snapshot().schema_id == 1
