"""Streams on Spark: the double write, the log's readers, restarts, replays."""

from __future__ import annotations

import json
import os

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


def test_a_stream_on_the_log_sees_changes_with_their_kinds(lake, spark, tmp_path) -> None:
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


def test_an_insert_from_a_log_is_a_streaming_query(lake, spark, tmp_path) -> None:
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
