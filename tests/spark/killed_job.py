"""Batch writes whose executors are killed in the middle, on a Spark with executors in processes; prints JSON.

usage: killed_job.py DIRECTORY (once|always) (false|true: with a log) (lake|format)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from lakelog import Lake, connect
from lakelog.spark.runtime.types import ArrowMap, map_in_arrow

ROWS = 40_000
TASKS = 4


def kill_executor() -> None:
    """kill -9 of the executor of this task: its Python workers, before one of them can tidy up, and the JVM."""
    daemon = os.getppid()
    executor = int(Path(f"/proc/{daemon}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
    children = Path(f"/proc/{daemon}/task/{daemon}/children").read_text(encoding="ascii").split()
    for process in [*(int(child) for child in children if int(child) != os.getpid()), executor, daemon]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def killing(table: str, always: bool) -> ArrowMap:
    """Passes rows on; the third task kills its executor behind its last row, at its first try or always.

    Then the sink has written what its buffer did not hold, and waits for more.
    """

    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        if task.partitionId() != 2 or (task.attemptNumber() > 0 and not always):
            return
        files, since = -1, time.monotonic()
        while files < 1 or time.monotonic() - since < 1.5:
            now = len(list(Path(table).glob("bucket-*/*")))
            files, since = (files, since) if now == files else (now, time.monotonic())
            time.sleep(0.02)
        kill_executor()

    return passed


def write(lake: Lake, spark: SparkSession, way: str, always: bool) -> str:
    """Writes the rows; what the write has said."""
    path = lake.table("db.t").logical.path
    rows = spark.range(0, ROWS, 1, TASKS).selectExpr("id", "repeat(sha2(cast(id as string), 512), 4) as text")
    frame = map_in_arrow(rows, killing(path, always), rows.schema)
    try:
        if way == "lake":
            lake.write(frame, "db.t")
        else:
            frame.write.format("lakelog").mode("append").save("db.t")
    except Exception as failed:
        return f"{type(failed).__name__}: {failed}"
    return ""


def told(lake: Lake) -> list[int]:
    """The rows of the log that count, the sum of their ids, and how often the rarest one is there."""
    net: Counter[int] = Counter()
    for batch in lake.table("db.t").tail("earliest", stop="latest"):
        for number, kind in zip(batch["id"].to_pylist(), batch["_row_kind"].to_pylist(), strict=True):
            net[number] += 1 if kind in ("+I", "+U") else -1
    return [len(list(net.elements())), sum(net.elements()), min(net.values(), default=0)]


def main() -> None:
    root, when, log, way = sys.argv[1:]
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.executor.memory", "1g").config("spark.log.level", "OFF")
    builder = builder.config("spark.task.maxFailures", "2").config(
        "spark.sql.execution.arrow.maxRecordsPerBatch", "500"
    )
    spark = builder.getOrCreate()
    lake = connect(spark, warehouse=f"{root}/warehouse")
    lake.sql(
        "create table db.t (id bigint, text string) using lakelog tblproperties ('bucket' = '2', 'bucket-key' = 'id', "
        f"'write-only' = 'true', 'write-buffer-size' = '1 mb', 'log-store.enabled' = '{log}')"
    )
    failed = write(lake, spark, way, when == "always")
    table = lake.table("db.t")
    snapshot = table.latest_snapshot()
    store = table.logical.store
    named = {entry.file.file_name for entry in store.live_entries(snapshot)}
    found = {
        "failed": failed,
        "rows": [tuple(r) for r in lake.sql("select count(*), count(distinct id), sum(id) from db.t").collect()][0],
        "log": told(lake) if log == "true" else None,
        "snapshots": 0 if snapshot is None else snapshot.id,
        "unnamed": sorted(p.name for p in Path(table.logical.path).glob("bucket-*/*") if p.name not in named),
        "named": len(named),
        "orphans": len(table.remove_orphan_files("0 s").files),
    }
    found["left"] = sorted(p.name for p in Path(table.logical.path).glob("bucket-*/*") if p.name not in named)
    print(json.dumps(found), flush=True)  # noqa: T201 - its output is its result
    spark.stop()


if __name__ == "__main__":
    main()
