"""A job for ``spark-submit --py-files``: reads before anything has imported lakelog, then writes; prints JSON.

usage: submitted_job.py WAREHOUSE
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.read.format("lakelog").option("warehouse", sys.argv[1]).load("db.t").collect()
first = {"rows": [tuple(row) for row in rows], "imported": "lakelog" in sys.modules}

import lakelog  # noqa: E402 - what is read above needs no import


def place(_: int) -> str:
    """Where an executor has found lakelog."""
    import lakelog as found  # in the executor's process

    return found.__file__


lake = lakelog.connect(spark, warehouse=sys.argv[1])
lake.write(spark.range(0, 1000, 1, 2).selectExpr("id", "concat('n', id) as name"), "db.t")
table = lake.table("db.t")
table.seal()
found = {
    "first": first,
    "files": lake.sql("select count(*), sum(id) from db.t").collect()[0].asDict(),
    "log": sorted(i for batch in table.tail("earliest", stop="latest") for i in batch["id"].to_pylist()),
    "packages": sorted({lakelog.__file__, *spark.sparkContext.parallelize(range(2), 2).map(place).collect()}),
}
sys.stdout.write(json.dumps(found) + "\n")
spark.stop()
