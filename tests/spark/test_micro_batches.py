"""Streams of a Spark without Python data sources, on any Spark: micro-batches that this process makes, and writes by
``foreachBatch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakelog.errors import CommitConflict
from lakelog.spark.read.micro_batches import MicroBatches
from lakelog.spark.read.task_frame import task_frame
from lakelog.spark.runtime.types import scan_schema, spark_schema
from lakelog.spark.write.append_stream import each_batch
from lakelog.table.log.scan import LogScan
from lakelog.table.open import scan_of
from lakelog.table.read.file_stream import FileStream

pytestmark = pytest.mark.local_only("the batches are made in this process")

CREATE = """create table db.t (id bigint, name string, primary key (id)) using lakelog
tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'commit.interval' = '50 ms')"""
READS = [{}, {"read.mode": "log", "scan.startup.mode": "latest-full"}]


def batches_of(lake, spark, options: dict[str, str]) -> MicroBatches:
    table = lake.table("db.t").logical.with_hints(options)
    schema = LogScan(table).schema if table.reads_log else FileStream(table).schema
    return MicroBatches(spark, table, spark_schema(schema))


def kept(seen: list[tuple[int, str, int]]) -> Callable[[Any, int], None]:
    def take(batch: Any, number: int) -> None:
        seen.extend((number, row["_row_kind"], row["id"]) for row in batch.collect())

    return take


@pytest.mark.parametrize("options", READS, ids=["files", "log"])
def test_a_query_ends_with_what_is_available_and_goes_on_later(lake, spark, tmp_path, options) -> None:
    lake.sql(CREATE)
    lake.sql("insert into db.t values (1, 'a'), (2, 'b')")
    seen: list[tuple[int, str, int]] = []
    for number in (3, 4):
        source, checkpoint = batches_of(lake, spark, options), str(tmp_path / "cp")
        assert source.foreach_batch(kept(seen), checkpoint, available_now=True).awaitTermination(120)
        lake.sql(f"insert into db.t values ({number}, 'c')")
    assert sorted(row[1:] for row in seen) == [("+I", 1), ("+I", 2), ("+I", 3)]


@pytest.mark.parametrize("options", READS, ids=["files", "log"])
def test_a_micro_batch_that_fails_is_given_again_with_its_number(lake, spark, tmp_path, options) -> None:
    lake.sql(CREATE)
    lake.sql("insert into db.t values (1, 'a'), (2, 'b')")
    seen: list[tuple[int, str, int]] = []

    def fail(batch: Any, number: int) -> None:
        kept(seen)(batch, number)
        raise RuntimeError("the sink is full")

    checkpoint = str(tmp_path / "cp")
    query = batches_of(lake, spark, options).foreach_batch(fail, checkpoint)
    with pytest.raises(RuntimeError, match="the sink is full"):
        query.awaitTermination(120)
    assert not query.isActive
    lake.sql("insert into db.t values (3, 'c')")
    again: list[tuple[int, str, int]] = []
    running = batches_of(lake, spark, options).foreach_batch(kept(again), checkpoint)
    running.processAllAvailable()
    lake.sql("insert into db.t values (4, 'd')")
    running.processAllAvailable()
    running.stop()
    first = [row for row in again if row[0] == 0]
    assert sorted(first) == sorted(seen), "the same rows, with the same number"
    assert sorted(row[2] for row in again if row[0]) == [3, 4]


def test_a_checkpoint_belongs_to_one_query(lake, spark, tmp_path) -> None:
    lake.sql(CREATE)
    checkpoint = str(tmp_path / "cp")
    one, other = (batches_of(lake, spark, {}).foreach_batch(kept([]), checkpoint) for _ in range(2))
    lake.sql("insert into db.t values (1, 'a')")
    with pytest.raises(CommitConflict, match="has micro-batch 0 of another process"):
        for query in (one, other):
            query.processAllAvailable()
    for query in (one, other):
        query.stop()


def test_tasks_read_the_newest_rows_in_each_query_of_a_frame(lake, spark) -> None:
    lake.sql(CREATE)
    scan = scan_of(lake.table("db.t").logical)
    frame = task_frame(spark, scan.table, scan_schema(scan.schema, scan.row_schema))
    for number in (1, 2):
        lake.sql(f"insert into db.t values ({number}, 'a')")
        assert sorted(row["id"] for row in frame.select("id").collect()) == list(range(1, number + 1))


def test_a_stream_is_written_by_each_batch_once(lake, spark, tmp_path) -> None:
    """Its first micro-batch has no rows, and no task."""
    lake.sql(CREATE)
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    rows = ticks.selectExpr("value as id", "'a' as name")
    for _ in range(2):
        query = each_batch(lake.table("db.t").logical, rows, str(tmp_path / "cp")).start()
        while (progress := query.lastProgress) is None or not progress["numInputRows"]:
            assert not query.awaitTermination(0.2)
        query.stop()
    lake.table("db.t").seal()
    ids = [row["id"] for row in lake.sql("select id from db.t").collect()]
    assert sorted(ids) == list(range(len(ids)))
    assert ids
