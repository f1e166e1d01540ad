"""Reads tables by their Iceberg metadata with Iceberg's own reader in Spark: a JSON request a line.

It runs with a PySpark that this reader has a jar for; its only argument is that jar. A request has ``table`` (its
directory), or ``rest`` (a catalog with the table ``db.t``) and ``token``. It may have ``snapshot``, ``tag``,
``filter`` and ``columns``. The rows go to the Parquet directory ``out``.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from typing import Any

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def answer(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    reader = spark.read.format("iceberg")
    if "rest" in request:
        name = f"lake{uuid.uuid4().hex}"
        spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        for key, value in (("type", "rest"), ("uri", request["rest"]), ("token", request["token"])):
            spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
        tables = spark.sql(f"show tables in {name}.db").collect()
        spark.table(f"{name}.db.t").coalesce(1).write.mode("overwrite").parquet(request["out"])
        return {"tables": [row["tableName"] for row in tables]}
    for name, option in (("snapshot", "snapshot-id"), ("tag", "tag")):
        if name in request:
            reader = reader.option(option, request[name])
    rows = reader.load(request["table"])
    rows = rows.where(request["filter"]) if request.get("filter") else rows
    rows = rows.selectExpr(*request["columns"]) if "columns" in request else rows
    rows.coalesce(1).write.mode("overwrite").parquet(request["out"])
    snapshots = spark.read.format("iceberg").load(f"{request['table']}#snapshots").select("snapshot_id").collect()
    refs = spark.read.format("iceberg").load(f"{request['table']}#refs").select("name", "snapshot_id").collect()
    tags = {name: number for name, number in refs if name != "main"}
    current = next(number for name, number in refs if name == "main")
    return {"current": current, "snapshots": [number for (number,) in snapshots], "tags": tags}


def main() -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the JVM prints there, too
    builder = SparkSession.builder.master("local[1]").config("spark.jars", sys.argv[1])
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            found: dict[str, Any] = answer(spark, json.loads(line))
        except Exception as why:
            found = {"error": f"{type(why).__name__}: {why}"}
        out.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
