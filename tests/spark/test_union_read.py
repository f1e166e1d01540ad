"""Spark over both stores: batch queries as fresh as the log, and streams that begin with a snapshot."""

from __future__ import annotations

import polars as pl
import pytest

from lakelog.spark.compat.natives import STREAM_LIMITS
from seen_batches import SeenBatches

CREATE = """create table db.t (id bigint, name string, primary key (id)) using lakelog
tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'log.changelog-mode' = '{mode}',
'log-store.data-format' = '{form}')"""
UNION = "/*+ OPTIONS('read.mode'='union') */"


def rows(first: int, count: int, name: str) -> pl.DataFrame:
    return pl.DataFrame({"id": range(first, first + count), "name": [name] * count})


@pytest.mark.parametrize(("open_rows", "form"), [(300, "debezium-json"), (30_000, "debezium-json"), (30_000, "arrow")])
def test_a_batch_query_is_as_fresh_as_the_log(lake, open_rows, form) -> None:
    """Few open rows travel with the plan, many are merged by the tasks."""
    lake.sql(CREATE.format(mode="upsert", form=form))
    table = lake.table("db.t")
    with table.writer() as writer:
        writer.write(rows(0, 10_000, "old"))
        writer.commit()
        writer.write(rows(9_900, open_rows, "new"))
        writer.flush()
        query = f"select name, count(*) as n, min(id) as first from db.t {UNION} group by name order by name"
        found = [tuple(row) for row in lake.sql(query).collect()]
        assert found == [("new", open_rows, 9_900), ("old", 9_900, 0)]
        one = lake.sql(f"select name from db.t {UNION} where id = 9999").collect()
        assert [row.name for row in one] == ["new"]
        assert lake.sql("select count(*) as n from db.t").collect()[0].n == 10_000
        plan = lake.sql(f"explain select * from db.t {UNION}").collect()[0][0]
        assert "files: snapshot 1" in plan and "log after them:" in plan and "== Physical Plan ==" in plan


@pytest.mark.parametrize(("mode", "form"), [("all", "debezium-json"), ("upsert", "debezium-json"), ("upsert", "arrow")])
def test_a_stream_begins_with_the_newest_snapshot_and_goes_on_in_the_log(lake, spark, tmp_path, mode, form) -> None:
    lake.sql(CREATE.format(mode=mode, form=form))
    table = lake.table("db.t")
    table.write(rows(0, 1_000, "old"))
    taken = SeenBatches(tmp_path / "seen")

    def stream(**trigger):
        options = {"read.mode": "log", "scan.startup.mode": "latest-full"}
        options |= {"read.max-rows-per-trigger": "600"} if STREAM_LIMITS else {}
        reader = spark.readStream.format("lakelog").options(**options).load("db.t")
        writing = reader.writeStream.option("checkpointLocation", str(tmp_path / "cp")).foreachBatch(taken.take)
        return writing.trigger(**trigger).start()

    query = stream(processingTime="0 seconds")
    while not taken.rows():
        query.awaitTermination(0.05)
    query.stop()  # perhaps in the middle of the snapshot
    for number in range(3):
        table.write(rows(990 + 10 * number, 10, f"new{number}"))
    table.compact(on_spark=False)
    for _ in range(1 if STREAM_LIMITS else 2):  # a Spark without limits ends a run with a micro-batch that it repeats
        stream(availableNow=True).awaitTermination()
    state: dict[int, str] = {}
    seen = taken.tuples("_row_kind", "id", "name")
    for kind, number, name in seen:
        state.pop(number, None)
        state |= {number: name} if kind in ("+I", "+U") else {}
    assert state == {r["id"]: r["name"] for r in table.scan().to_arrow().to_pylist()}
    assert len(state) == 1_020
    assert len(seen) - len(set(seen)) in (0, 1_000), "the micro-batch that was cut off is repeated, no other"
