"""A job for ``spark-submit --py-files``: fills a table with a log by a batch and a stream; prints JSON.

usage: submitted_job.py WAREHOUSE INPUT CHECKPOINT
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import lakelog


def place_of_package(_: int) -> str:
    """Where an executor has found lakelog."""
    import lakelog as found  # in the executor's process

    return found.__file__


def main() -> None:
    warehouse, directory, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    lake = lakelog.connect(spark, warehouse=warehouse)
    lake.sql(
        "create table db.t (id bigint, name string, primary key (id)) using lakelog "
        "tblproperties ('log-store.enabled' = 'true', 'bucket' = '2')"
    )
    lake.write(spark.range(0, 1000, 1, 4).selectExpr("id", "concat('n', id) as name"), "db.t")
    frame = spark.readStream.schema("id bigint, name string").json(directory)
    query = lake.write_stream(frame, "db.t", checkpoint)
    query.processAllAvailable()
    query.stop()
    table = lake.table("db.t")
    table.seal()
    log = {i for batch in table.tail("earliest", stop="latest") for i in batch["id"].to_pylist()}
    places = spark.sparkContext.parallelize(range(2), 2).map(place_of_package).collect()
    found = {
        "files": lake.sql("select count(*), sum(id) from db.t").collect()[0].asDict(),
        "log": [len(log), sum(log)],
        "packages": sorted({lakelog.__file__, *places}),
        "master": spark.conf.get("spark.master"),
    }
    print(json.dumps(found), flush=True)  # noqa: T201 - its output is its result
    spark.stop()


if __name__ == "__main__":
    main()
