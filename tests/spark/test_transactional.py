"""Streams of committed rows, and of inserts alone, on Spark: as they come, restarted, planned again, from SQL."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.errors.exceptions.base import PySparkException

from lakelog.errors import UnsupportedFeature
from lakelog.spark.realtime.realtime import read_changes
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.register import register_writer
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import rows
from seen_batches import SeenBatches

CREATE = """create table db.t (id int, name string) using lakelog tblproperties ('log-store.enabled' = 'true',
'bucket' = '2', 'bucket-key' = 'id'{more})"""


@pytest.fixture
def table(lake):
    lake.sql(CREATE.format(more=""))
    return lake.table("db.t")


def query(lake, checkpoint, seen: SeenBatches, **options: str):
    given = {
        "read.mode": "log",
        "scan.startup.mode": "earliest",
        **{k.replace("__", "."): v for k, v in options.items()},
    }
    frame = lake.spark.readStream.format("lakelog").options(**given).load("db.t")
    return frame.writeStream.foreachBatch(seen.take).option("checkpointLocation", str(checkpoint))


def told(seen: SeenBatches) -> list[tuple[str, int]]:
    return sorted(seen.tuples("_row_kind", "id"))


def fail_over(table, epoch: int, *ids: int) -> Committer:
    """An epoch with two attempts, of which the second one counts; decided, not sealed."""
    register_writer(table.logical, "w")
    tasks = [TaskWriter(table.logical, "w", epoch, 0) for _ in range(2)]
    for task in tasks:
        task.write(rows(*ids).to_batches()[0])
        task.flush_log()
    committer = Committer(table.logical, "w")
    committer.commit(epoch, [tasks[1].finish()])
    tasks[0].close()
    return committer


def test_a_stream_shows_committed_rows_once_over_restarts(lake, table, tmp_path) -> None:
    seen = SeenBatches(tmp_path / "seen")
    for epoch in range(3):
        committer = fail_over(table, epoch, 10 * epoch, 10 * epoch + 1)
        running = query(lake, tmp_path / "cp", seen, log__consistency="transactional").start()
        running.processAllAvailable()
        assert len(seen.rows()) == 2 * epoch, "decided, not committed"
        seal(committer)
        running.processAllAvailable()
        running.stop()
    assert told(seen) == [("+I", n) for n in (0, 1, 10, 11, 20, 21)]


def test_the_real_time_path_refuses(lake) -> None:
    lake.sql(CREATE.format(more=", 'log.consistency' = 'transactional', 'log-store.data-format' = 'debezium-json'"))
    table = lake.table("db.t").logical
    on_kafka = replace(table.log, system="kafka")
    table.__dict__["log"] = on_kafka
    with pytest.raises(UnsupportedFeature, match="'log.consistency'='transactional'.*Use read_stream"):
        read_changes(lake.spark, table, None)


def test_the_guarantee_off_and_inserts_alone(lake, table, tmp_path) -> None:
    fail_over(table, 0, 1, 2)
    twice = [("+I", 1)] * 2 + [("+I", 2)] * 2
    for number, (options, expected) in enumerate(
        [
            ({}, [*twice, ("-D", 1), ("-D", 2)]),
            ({"log-store__consistency-guarantee__enabled": "false"}, twice),
            ({"log__consumer__changelog__modes": "append-only"}, twice),
        ]
    ):
        seen = SeenBatches(tmp_path / f"seen{number}")
        run = query(lake, tmp_path / f"cp{number}", seen, **options).trigger(availableNow=True).start()
        run.awaitTermination()
        assert told(seen) == sorted(expected)
    strict = {"log__consumer__changelog__modes": "append-only", "log__consumer__retractions": "error"}
    run = query(lake, tmp_path / "strict", SeenBatches(tmp_path / "seen"), **strict).start()
    with pytest.raises(PySparkException, match="log.consumer.retractions"):
        run.processAllAvailable()
