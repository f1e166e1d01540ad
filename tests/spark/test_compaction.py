"""Compactions as jobs on Spark's executors."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.utils import is_remote

from lakelog.spark.engine import engine
from lakelog.spark.engine.compaction import SparkExecutor


@pytest.fixture
def table(lake):
    lake.sql(
        "create table db.t (p string, id int, name string, primary key (p, id)) using lakelog "
        "partitioned by (p) tblproperties ('bucket' = '3', 'write-only' = 'true')"
    )
    found = lake.table("db.t")
    for number in range(3):
        with found.writer() as writer:
            ids = pa.array(range(40), pa.int32())
            writer.write(pa.table({"p": ["a", "b"] * 20, "id": ids, "name": [f"n{number}"] * 40}))
    return found


def rows(table) -> list[tuple[int, str]]:
    found = table.scan().to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


def test_buckets_are_compacted_by_executors_and_committed_by_the_driver(lake, table, monkeypatch) -> None:
    ran: list[int] = []
    run = SparkExecutor.run

    def counted(executor, given, tasks):
        outcomes = run(executor, given, tasks)
        ran.append(len(outcomes))
        return outcomes

    monkeypatch.setattr(SparkExecutor, "run", counted)
    monkeypatch.setattr(engine, "_FEW_CORES", 0)
    told: list[tuple[int, int]] = []
    done = table.compact(partitions=[{"p": "a"}], progress=lambda *counts: told.append(counts))
    assert (sum(ran), done.buckets, done.files_before, done.files_after) == (3, 3, 9, 3)
    assert told[-1] == (3, 3)
    (answer,) = lake.sql("CALL sys.compact('db.t', where => \"p > 'a'\")").to_pylist()
    assert (sum(ran), answer["buckets"], answer["files_before"]) == (6, 3, 9)
    assert rows(table) == [(number, "n2") for number in range(40)]
    assert not table.compact()
    assert lake.spark.sql("select 1").count() == 1


def test_a_local_session_of_few_cores_leaves_compactions_to_this_process(lake, table, monkeypatch) -> None:
    ran: list[int] = []
    run = SparkExecutor.run
    monkeypatch.setattr(SparkExecutor, "run", lambda *given: ran.append(1) or run(*given))
    assert table.compact(partitions=[{"p": "a"}]).buckets == 3
    assert bool(ran) == is_remote(), "Connect's executors are never here"
    ran.clear()
    assert table.compact(partitions=[{"p": "b"}], on_spark=True).buckets == 3
    assert ran != []
