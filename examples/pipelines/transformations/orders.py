"""A pipeline from one lakelog table to another: a streaming table of checked changes, and a sink that applies them."""

import os
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

spark = SparkSession.active()
WAREHOUSE = str(Path(os.environ.get("LAKELOG_WAREHOUSE", "./warehouse")).resolve())


@dp.table(comment="The changes that are whole.")
def checked_changes() -> DataFrame:
    """A streaming table, which Spark stores. It reads the changes of a lakelog table, commit by commit."""
    changes = spark.readStream.format("lakelog").option("warehouse", WAREHOUSE).load("shop.changes")
    return changes.where("id is not null and version is not null")


dp.create_sink("orders", "lakelog", {"warehouse": WAREHOUSE, "path": "shop.orders"})


@dp.append_flow(target="orders")
def apply_changes() -> DataFrame:
    """Changes with their row kinds: the table's primary key and sequence.field say what they do to its rows."""
    kind = sf.when(sf.col("op") == "delete", "-D").otherwise("+I")
    changes = spark.readStream.table("checked_changes")
    return changes.select("id", "city", "amount", "version", kind.alias("_row_kind"))
