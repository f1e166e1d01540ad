"""What must hold on a Spark whose executors are processes of their own, in one session; prints JSON.

A stream fills both stores and is read back; a compaction's workers die, an executor is killed amid a batch write, the
tasks of a stream fail after some rows. Each part has a table of its own.

usage: cluster_job.py DIRECTORY
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
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from lakelog import Lake, Table, connect
from lakelog.logstore.base import LogLocation
from lakelog.logstore.clients import reader_for
from lakelog.spark.compat.arrow import ArrowMap, map_in_arrow
from lakelog.spark.engine.compaction import CompactionPack, SparkExecutor
from lakelog.table.maintenance.compaction_job import compact_table
from lakelog.table.maintenance.compaction_task import BucketOutcome

ROWS, TASKS = 40_000, 4


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
    table = lake.table("db.streamed")
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


def put(directory: Path, parts: int, count: int, name: str) -> None:
    """Files of so many rows each."""
    directory.mkdir()
    for part in range(parts):
        rows = (json.dumps({"id": i, "name": name}) for i in range(part * count, part * count + count))
        (directory / f"{part}.json").write_text("\n".join(rows), encoding="utf-8")


def stream(lake: Lake, directory: Path) -> Any:
    reader = lake.spark.readStream.schema("id bigint, name string").option("maxFilesPerTrigger", "1")
    return reader.json(str(directory))


def streamed(lake: Lake, root: Path) -> dict[str, Any]:
    """A streaming write, a streaming read of its log, and a compaction."""
    lake.sql(
        "create table db.streamed (id bigint, name string, primary key (id)) using lakelog "
        "tblproperties ('log-store.enabled' = 'true', 'bucket' = '4')"
    )
    put(root / "in", 3, 1000, "n")
    query = lake.write_stream(stream(lake, root / "in").repartition(4), "db.streamed", str(root / "checkpoint"))
    query.processAllAvailable()
    query.stop()
    lake.table("db.streamed").seal()
    counted: list[int] = []
    reader = lake.sql("select * from db.streamed /*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */")
    reading = reader.writeStream.foreachBatch(lambda b, _: counted.append(b.count())).trigger(availableNow=True).start()
    reading.awaitTermination()
    found = lake.sql("select count(*), sum(id) from db.streamed").collect()[0]
    return {"files": [*found], "log": sum(counted), "compacted": compact(lake)}


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
    """Passes rows on; the third task kills its executor behind its last row at its first try, or its worker always.

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
        if always:
            os.kill(os.getpid(), signal.SIGKILL)
        kill_executor()

    return passed


def net_of(table: Table) -> Counter[int]:
    """The rows of the log that count."""
    net: Counter[int] = Counter()
    for batch in table.tail("earliest", stop="latest"):
        for number, kind in zip(batch["id"].to_pylist(), batch["_row_kind"].to_pylist(), strict=True):
            net[number] += 1 if kind in ("+I", "+U") else -1
    return net


def killed(lake: Lake, name: str, way: str, log: bool, always: bool) -> dict[str, Any]:
    """A batch write whose task is killed: what it said, and what is in the table and in its directory."""
    lake.sql(
        f"create table {name} (id bigint, text string) using lakelog tblproperties ('bucket' = '2', 'bucket-key' = "
        f"'id', 'write-only' = 'true', 'write-buffer-size' = '1 mb', 'log-store.enabled' = '{str(log).lower()}')"
    )
    table, failed = lake.table(name), ""
    rows = lake.spark.range(0, ROWS, 1, TASKS).selectExpr("id", "repeat(sha2(cast(id as string), 512), 4) as text")
    frame = map_in_arrow(rows, killing(table.logical.path, always), rows.schema)
    try:
        if way == "lake":
            lake.write(frame, name)
        else:
            frame.write.format("lakelog").mode("append").save(name)
    except Exception as error:
        failed = f"{type(error).__name__}: {error}"
    store = table.logical.store
    named = {entry.file.file_name for entry in store.live_entries(table.latest_snapshot())}

    def unnamed() -> list[str]:
        return sorted(p.name for p in Path(table.logical.path).glob("bucket-*/*") if p.name not in named)

    net = net_of(table) if log else Counter()
    return {
        "failed": failed,
        "rows": [*lake.sql(f"select count(*), count(distinct id), sum(id) from {name}").collect()[0]],
        "log": [sum(net.values()), sum(net.elements()), min(net.values(), default=0)] if log else None,
        "named": len(named),
        "unnamed": unnamed(),
        "orphans": len(table.remove_orphan_files("0 s").files),
        "left": unnamed(),
    }


def dying_with(log: LogLocation) -> ArrowMap:
    """Passes batches on; of a first try some, and when their rows are in the log it dies."""

    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ends = reader_for(log).end_offsets()
        for number, batch in enumerate(batches):
            if number == 3 and TaskContext.get().attemptNumber() == 0:
                reader_for(log).wait(ends, 30)
                raise RuntimeError("died after some rows")
            yield batch

    return dying


def retried(lake: Lake, root: Path) -> dict[str, Any]:
    """A streaming write whose tasks die after some rows at their first try."""
    lake.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2")
    lake.sql(
        "create table db.retried (id bigint, name string) using lakelog tblproperties ('log-store.enabled' = 'true', "
        "'bucket' = '2', 'bucket-key' = 'id', 'log-store.data-format' = 'debezium-json')"
    )
    put(root / "long", 2, 30, "n" * 40_000)
    rows, table = stream(lake, root / "long"), lake.table("db.retried")
    dying = map_in_arrow(rows.repartition(2), dying_with(table.logical.log), rows.schema)
    query = lake.write_stream(dying, "db.retried", str(root / "retried"))
    query.processAllAvailable()
    query.stop()
    table.seal()
    committed = table.tail("earliest", stop="latest", options={"log.consistency": "transactional"})
    raw = [r for chunk in table.log_records() for r in chunk.select(["header", "value"]).to_pylist()]
    return {
        "files": sorted(table.scan().to_arrow()["id"].to_pylist()),
        "net": sorted(net_of(table).elements()),
        "committed": sorted(n for b in committed for n in b["id"].to_pylist()),
        "records": sum(r["value"] is not None for r in raw),
        "attempts": len({r["header"].split(b"|")[4] for r in raw if r["header"].startswith(b"1|d|")}),
    }


def main() -> None:
    root = Path(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.executor.memory", "1g").config("spark.log.level", "OFF")
    spark = builder.config("spark.task.maxFailures", "2").getOrCreate()
    lake = connect(spark, warehouse=str(root / "warehouse"))
    found: dict[str, Any] = {"streamed": streamed(lake, root)}
    found["executors"] = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    found["retried"] = retried(lake, root)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    found["always"] = killed(lake, "db.always", "lake", log=True, always=True)
    found["once"] = killed(lake, "db.once", "lake", log=True, always=False)
    found["format"] = killed(lake, "db.format", "format", log=False, always=False)
    print(json.dumps(found), flush=True)  # noqa: T201 - its output is its result
    spark.stop()


if __name__ == "__main__":
    main()
