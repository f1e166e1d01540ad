"""Writes and reads a table on a Spark whose executors are processes of their own; prints what it found as JSON.

usage: cluster_job.py WAREHOUSE INPUT CHECKPOINT
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

from lakelog import connect


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
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    found = {
        "files": lake.sql("select count(*), sum(id) from db.t").collect()[0].asDict(),
        "log": sum(counted),
        "executors": executors,
    }
    print(json.dumps(found), flush=True)  # noqa: T201 - its output is its result
    spark.stop()


if __name__ == "__main__":
    main()
