"""What a table's reads cost beside plain Parquet scans of the same files, interleaved in one Spark session.

usage: native_scan.py WAREHOUSE TABLE [ROUNDS [WAY ...]]

Ways: ``parquet`` (all rows of the files, unmerged), ``warm`` (a frame that is there), ``query`` (a new frame; what
is known of the files is kept), ``cold`` (nothing is known) and ``workers`` (Python workers read everything). Each runs
over all columns and over the first number alone; medians of wall and CPU seconds, and ratios to ``parquet``.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from process_tree import cpu_seconds, rss_mb
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lakelog import connect
from lakelog.spark.native.native_scan import native_frame, python_frame
from lakelog.spark.native.position_filter import SupersededRowsCache
from lakelog.spark.runtime.types import spark_schema
from lakelog.spark.session.session import local_session
from lakelog.table.read.file_scan import Scan


def whole(frame: DataFrame) -> DataFrame:
    """Touches every value."""
    return frame.agg(sf.count("*"), *(sf.max(f"`{name}`") for name in frame.columns))


def ways_of(spark: Any, scan: Scan) -> dict[str, Callable[[], DataFrame]]:
    """The ways to read a scan."""
    store, known = scan.table.store, SupersededRowsCache()
    paths = [store.paths.data_file(s.partition, s.bucket, f) for s in scan.plan() for f in s.files]
    parquet = spark.read.schema(spark_schema(scan.schema)).parquet(*paths)
    warm = native_frame(spark, scan, scan.plan(), known)
    if warm is None:
        sys.exit(f"Spark reads no file of table {scan.table.name} by itself")
    return {
        "parquet": lambda: parquet,
        "warm": lambda: warm,
        "query": lambda: native_frame(spark, scan, scan.plan(), known),
        "cold": lambda: native_frame(spark, scan, scan.plan(), SupersededRowsCache()),
        "workers": lambda: python_frame(spark, scan),
    }


def main() -> None:
    warehouse, name, rounds = sys.argv[1], sys.argv[2], int((*sys.argv, "5")[3])
    spark = local_session(settings={"spark.driver.memory": "6g"})
    lake = connect(spark, warehouse=warehouse)
    columns = lake.table(name).schema
    number = next(f.name for f in columns if pa.types.is_floating(f.type) or pa.types.is_integer(f.type))
    for label, wanted in (("all columns", None), (number, [number])):
        ways = ways_of(spark, lake.table(name).scan(wanted))
        ways = {way: make for way, make in ways.items() if way in (sys.argv[4:] or ways)}
        took: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(rounds + 1):
            for way, make in ways.items():
                started, cpu = time.perf_counter(), cpu_seconds(os.getpid())
                whole(make()).collect()
                took[way].append((time.perf_counter() - started, cpu_seconds(os.getpid()) - cpu))
        floor = [statistics.median(column) for column in zip(*took["parquet"][1:], strict=True)]
        for way, runs in took.items():  # the first run warms the code up
            wall, cpu = (statistics.median(column) for column in zip(*runs[1:], strict=True))
            print(
                f"{label:12} {way:8} {wall:6.3f} s (x{wall / floor[0]:.2f})  CPU {cpu:6.3f} s (x{cpu / floor[1]:.2f})"
            )
    print(f"memory of all processes at the end: {rss_mb(os.getpid()):.0f} MB")


if __name__ == "__main__":
    main()
