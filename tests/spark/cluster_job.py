"""Writes, reads and compacts a table on a Spark whose executors are processes of their own; prints JSON.

usage: cluster_job.py WAREHOUSE INPUT CHECKPOINT
"""

from __future__ import annotations

import json
import os
import sys

from pyspark import TaskContext
from pyspark.sql import SparkSession

from lakelog import Lake, connect
from lakelog.spark.engine.compaction import CompactionPack, SparkExecutor
from lakelog.table.maintenance.compaction_job import compact_table
from lakelog.table.maintenance.compaction_task import BucketOutcome


class DyingPack(CompactionPack):
    """Kills its executor's worker when the files are written, the first time."""

    def outcomes(self) -> list[BucketOutcome]:
        found = super().outcomes()
        if TaskContext.get().attemptNumber() == 0:
            os._exit(1)
        return found


class DyingExecutor(SparkExecutor):
    """Executors whose workers die with the first attempt of each task."""

    def run_pack(self, pack: CompactionPack) -> list[BucketOutcome]:
        return super().run_pack(DyingPack(pack.table, pack.tasks))


def compact(lake: Lake) -> dict[str, int]:
    """Compacts the table with executors that die; what came of it."""
    table = lake.table("db.t")
    dynamic = table.logical
    done = compact_table(dynamic, executor=DyingExecutor(lake.spark, 2))
    again = table.compact()
    return {
        "buckets": done.buckets,
        "files": done.files_after,
        "again": again.buckets,
        "orphans": len(table.remove_orphan_files("0 s", dry_run=True).files),
        "leases": len(dynamic.io.list(dynamic.store.paths.compaction_leases)),
    }


def main() -> None:
    warehouse, directory, checkpoint = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.executor.memory", "1g").config("spark.log.level", "ERROR").getOrCreate()
    lake = connect(spark, warehouse=warehouse)
    lake.sql(
        "create table db.t (id bigint, name string, primary key (id)) using lakelog "
        "tblproperties ('log-store.enabled' = 'true', 'bucket' = '4')"
    )
    frame = spark.readStream.schema("id bigint, name string").option("maxFilesPerTrigger", "1").json(directory)
    query = lake.write_stream(frame.repartition(4), "db.t", checkpoint)
    query.processAllAvailable()
    query.stop()
    lake.table("db.t").seal()
    counted: list[int] = []
    reader = lake.sql("select * from db.t /*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */")
    reading = reader.writeStream.foreachBatch(lambda b, _: counted.append(b.count())).trigger(availableNow=True).start()
    reading.awaitTermination()
    compacted = compact(lake)
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    found = {
        "files": lake.sql("select count(*), sum(id) from db.t").collect()[0].asDict(),
        "log": sum(counted),
        "compacted": compacted,
        "executors": executors,
    }
    print(json.dumps(found), flush=True)  # noqa: T201 - its output is its result
    spark.stop()


if __name__ == "__main__":
    main()
