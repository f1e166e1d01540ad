"""Streams on Spark: the double write, the log's readers, restarts, replays."""

from __future__ import annotations

import json
import os

import polars as pl
import pyarrow as pa
import pytest
from pyspark.errors.exceptions.base import PySparkException

from seen_batches import SeenBatches

CREATE = """create table db.t (id bigint, name string, primary key (id)) using lakelog
tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'commit.interval' = '200 ms',
'log.changelog-mode' = '{mode}', 'log-store.data-format' = 'debezium-json')"""


def source(spark, directory, name: str, rows: list[tuple[int, str, str]]) -> None:
    """Adds a file to a directory that a stream reads."""
    os.makedirs(directory, exist_ok=True)
    text = "\n".join(json.dumps({"id": i, "name": n, "_row_kind": k}) for i, n, k in rows)
    with open(f"{directory}/{name}.part", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(f"{directory}/{name}.part", f"{directory}/{name}.json")


def stream(spark, directory):
    os.makedirs(directory, exist_ok=True)
    reader = spark.readStream.schema("id bigint, name string, _row_kind string").option("pathGlobFilter", "*.json")
    return reader.json(str(directory))


def fold(lake, name: str) -> dict[int, dict]:
    """What a plain debezium-json consumer makes of the log."""
    state: dict[int, dict] = {}
    for chunk in lake.table(name).log_records():
        for key, value in zip(chunk["key"].to_pylist(), chunk["value"].to_pylist(), strict=True):
            if value is None:
                continue
            change = json.loads(value)
            if change["op"] == "d":
                state.pop(json.loads(key)["id"], None)
            else:
                state[change["after"]["id"]] = change["after"]
    return state


def files(lake, name: str) -> dict[int, dict]:
    return {r["id"]: r for r in lake.table(name).scan().to_arrow().to_pylist()}


@pytest.mark.parametrize(("mode", "log"), [("all", "embedded"), ("upsert", "embedded"), ("all", "files")])
def test_a_streaming_write_fills_both_stores(lake, spark, tmp_path, mode, log) -> None:
    lake.sql("create database db")
    lake.sql(CREATE.format(mode=f"{mode}', 'log-store.type' = '{log}"))
    source(spark, tmp_path / "in", "1", [(i, f"n{i}", "+I") for i in range(50)])
    query = lake.write_stream(stream(spark, tmp_path / "in"), "db.t", str(tmp_path / "cp"))
    query.processAllAvailable()
    source(spark, tmp_path / "in", "2", [(1, "n1", "-U"), (1, "new", "+U"), (2, "n2", "-D")])
    query.processAllAvailable()
    want = {i: {"id": i, "name": f"n{i}"} for i in range(50) if i != 2}
    want[1]["name"] = "new"
    assert files(lake, "db.t") == want, "a batch read sees every finished micro-batch"
    assert fold(lake, "db.t") == want
    query.stop()


def test_a_restarted_query_goes_on_and_repeats_nothing(lake, spark, tmp_path) -> None:
    lake.sql("create database db")
    lake.sql(CREATE.format(mode="all"))
    for number in range(3):
        source(spark, tmp_path / "in", str(number), [(number, f"n{number}", "+I")])
        query = lake.write_stream(stream(spark, tmp_path / "in"), "db.t", str(tmp_path / "cp"))
        query.processAllAvailable()
        query.stop()
    assert files(lake, "db.t") == fold(lake, "db.t") == {i: {"id": i, "name": f"n{i}"} for i in range(3)}
    kinds = [b["_row_kind"].to_pylist() for b in lake.table("db.t").tail("earliest", stop="latest")]
    assert sorted(sum(kinds, [])) == ["+I"] * 3


def test_a_micro_batch_that_spark_repeats_is_written_once(lake, spark, tmp_path) -> None:
    """apache/paimon#9666: the last entry of the checkpoint's commit log is lost, the query starts again."""
    lake.sql("create database db")
    lake.sql(
        "create table db.t (id bigint, name string) using lakelog tblproperties ('log-store.enabled' = 'true', "
        "'log-store.data-format' = 'debezium-json')"
    )
    source(spark, tmp_path / "in", "1", [(1, "a", "+I"), (2, "b", "+I")])
    query = lake.write_stream(stream(spark, tmp_path / "in"), "db.t", str(tmp_path / "cp"))
    query.processAllAvailable()
    query.stop()
    commits = tmp_path / "cp" / "commits"
    newest = max((p for p in commits.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    newest.unlink()
    query = lake.write_stream(stream(spark, tmp_path / "in"), "db.t", str(tmp_path / "cp"))
    query.processAllAvailable()
    query.stop()
    assert sorted(lake.table("db.t").scan().to_arrow()["id"].to_pylist()) == [1, 2]
    in_log = pa.concat_tables(lake.table("db.t").log_records())
    assert sum(v is not None for v in in_log["value"].to_pylist()) == 2


def test_a_stream_on_the_log_sees_changes_with_their_kinds(lake, spark, tmp_path) -> None:
    lake.sql("create database db")
    lake.sql(CREATE.format(mode="all"))
    seen = SeenBatches(tmp_path / "seen")
    reader = lake.sql("select id, name, _row_kind from db.t /*+ OPTIONS('read.mode'='log') */")
    assert reader.isStreaming
    reading = reader.writeStream.foreachBatch(seen.take).start()
    reading.processAllAvailable()
    source(spark, tmp_path / "in", "1", [(7, "a", "+I"), (7, "a", "-U"), (7, "b", "+U"), (7, "b", "-D")])
    writing = lake.write_stream(stream(spark, tmp_path / "in").coalesce(1), "db.t", str(tmp_path / "cp"))
    writing.processAllAvailable()
    reading.processAllAvailable()
    assert [(r["name"], r["_row_kind"]) for r in seen.rows()] == [("a", "+I"), ("a", "-U"), ("b", "+U"), ("b", "-D")]


def test_large_micro_batches_of_the_log_are_read_by_tasks(lake, spark, tmp_path) -> None:
    lake.sql("create database db")
    lake.sql(CREATE.format(mode="upsert"))
    with lake.table("db.t").writer() as writer:
        writer.write(pl.DataFrame({"id": range(60_000), "name": ["x"] * 60_000}))
    seen = SeenBatches(tmp_path / "seen")
    reader = (
        spark.readStream.format("lakelog")
        .option("read.mode", "log")
        .option("scan.startup.mode", "earliest")
        .load("db.t")
    )
    reading = reader.writeStream.foreachBatch(seen.take).trigger(availableNow=True).start()
    reading.awaitTermination()
    assert sum(batch.num_rows for batch in seen.batches()) == 60_000


def test_an_insert_from_a_log_is_a_streaming_query(lake, spark, tmp_path) -> None:
    lake.sql("create database db")
    lake.sql(CREATE.format(mode="all"))
    lake.sql("create table db.sink (id bigint, name string, primary key (id)) using lakelog")
    text = (
        "insert into db.sink select id, name from db.t "
        "/*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */"
    )
    query = lake.sql(text)
    source(spark, tmp_path / "in", "1", [(1, "a", "+I"), (2, "b", "+I"), (1, "a", "-D")])
    writing = lake.write_stream(stream(spark, tmp_path / "in").coalesce(1), "db.t", str(tmp_path / "cp"))
    writing.processAllAvailable()
    query.processAllAvailable()
    assert files(lake, "db.sink") == {2: {"id": 2, "name": "b"}}, "a delete of the source deletes in the sink"
    query.stop()


def test_the_checkpoint_of_another_table_is_refused(lake, spark, tmp_path) -> None:
    lake.sql("create database db")
    lake.sql(CREATE.format(mode="all"))
    lake.sql(CREATE.format(mode="all").replace("db.t", "db.other"))
    source(spark, tmp_path / "in", "1", [(1, "a", "+I")])
    query = lake.write_stream(stream(spark, tmp_path / "in"), "db.t", str(tmp_path / "cp"))
    query.processAllAvailable()
    query.stop()
    source(spark, tmp_path / "in", "2", [(2, "b", "+I")])
    wrong = lake.write_stream(stream(spark, tmp_path / "in"), "db.other", str(tmp_path / "cp"))
    with pytest.raises(PySparkException, match="checkpoint of another table"):
        wrong.processAllAvailable()
    assert lake.table("db.other").scan().to_arrow().num_rows == 0
    assert fold(lake, "db.other") == {}
