"""A streaming job in a session of its own that fills a table with a log and ends at once.

usage: ended_job.py WAREHOUSE INPUT CHECKPOINT
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import lakelog


def main() -> None:
    """Runs one ``availableNow`` query through Spark's own API, and lets the process end."""
    warehouse, directory, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    lakelog.connect(spark, warehouse=warehouse)
    frame = spark.readStream.schema("id bigint, name string").option("maxFilesPerTrigger", 1).json(directory)
    query = (
        frame.writeStream.format("lakelog")
        .option("path", f"{warehouse}/db.db/t")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
