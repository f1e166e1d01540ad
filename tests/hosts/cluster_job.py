"""A job of many parts on a cluster whose machines share storage and a log's server alone; its results are a table.

usage: cluster_job.py SETTINGS

SETTINGS are base64, because YARN changes braces, of JSON: warehouse, storage, log, checkpoints, cluster, parts; and
local, a directory of the driver's machine.
"""

from __future__ import annotations

import base64
import json
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import functions as sf

from chaos.rows import Input
from chaos.source import ChaosSource
from lakelog import Lake, Table, connect
from lakelog.errors import LakelogError
from lakelog.spark.compat.arrow import map_in_arrow

ROWS: Final = 20_000
CHANGES: Final = 6_000
KEYS: Final = 1_000


def created(lake: Lake, name: str, columns: str, options: dict[str, str]) -> Table:
    """A new table with a log."""
    text = ", ".join(f"'{key}' = '{value}'" for key, value in {"log-store.enabled": "true", **options}.items())
    lake.sql(f"create table {name} ({columns}) using lakelog tblproperties ({text})")
    return lake.table(name)


def ids_of(table: Table) -> list[int]:
    """The ``id`` of each row that the log of a table with a key leads to."""
    alive: dict[int, bool] = {}
    for batch in table.tail("earliest", stop="latest"):
        kinds = (kind in ("+I", "+U") for kind in batch["_row_kind"].to_pylist())
        alive.update(zip(batch["id"].to_pylist(), kinds, strict=True))
    return sorted(number for number, is_alive in alive.items() if is_alive)


def hosts(lake: Lake, given: dict[str, Any]) -> dict[str, Any]:
    """Where driver and tasks run."""

    def here(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"id": pa.array([platform.node()])})

    rows = map_in_arrow(lake.spark.range(0, 8, 1, 4), here, "id string").distinct().collect()
    return {"driver": platform.node(), "tasks": sorted(row.id for row in rows)}


def batch(lake: Lake, given: dict[str, Any]) -> dict[str, Any]:
    """A write of many rows and one of the same keys by SQL: both stores, and a compaction by the executors."""
    table = created(lake, "db.batch", "id bigint, text string, primary key (id)", {"bucket": "4", **given["log"]})
    frame = lake.spark.range(0, ROWS, 1, 4).select("id", sf.sha2(sf.col("id").cast("string"), 256).alias("text"))
    lake.write(frame, "db.batch")
    lake.sql(f"update db.batch set text = 'changed' where id < {ROWS // 4}")
    lake.sql(f"delete from db.batch where id >= {ROWS - 100}")
    done = table.compact(full=True)
    counted = lake.sql("select count(*), sum(id), sum(if(text = 'changed', 1, 0)) from db.batch").collect()[0]
    files = sorted(table.scan(["id"]).to_arrow()["id"].to_pylist())
    return {
        "rows": [*counted],
        "is_log": files == ids_of(table),
        "buckets": done.buckets,
        "leases": len(table.logical.io.list(table.logical.store.paths.compaction_leases)),
    }


def stream(lake: Lake, given: dict[str, Any]) -> dict[str, Any]:
    """A double write by a stream, and a stream over its log."""
    lake.spark.dataSource.register(ChaosSource)
    table = created(
        lake, "db.streamed", "id bigint, v bigint, name string, at timestamp, primary key (id)", given["log"]
    )
    options = {"kind": "changes", "keys": KEYS, "seed": 7, "total": CHANGES, "rate": 10**6, "start_ms": 0}
    source = lake.spark.readStream.format("chaos").options(**options, burst=2_000).load()
    query = lake.write_stream(source.repartition(2, "id"), "db.streamed", f"{given['checkpoints']}/streamed")
    while query.lastProgress is None or json.loads(query.lastProgress.sources[0].endOffset)["change"] < CHANGES:
        if query.awaitTermination(1):
            raise query.exception() or SystemExit("the query was stopped")
    query.processAllAvailable()
    query.stop()
    table.seal()
    counted: list[int] = []
    reader = lake.read_stream("db.streamed", {"read.mode": "log", "scan.startup.mode": "earliest"})
    out = reader.writeStream.option("checkpointLocation", f"{given['checkpoints']}/counted")
    out.foreachBatch(lambda rows, _: counted.append(rows.count())).trigger(availableNow=True).start().awaitTermination()
    files, wanted = table.scan().to_arrow().sort_by("id"), Input("changes", KEYS, 7)
    return {
        "is_input": files.select(["id", "v"]).to_pydict()
        == wanted.table_after(CHANGES).sort("id").select("id", "v").to_dict(as_series=False),
        "is_log": files["id"].to_pylist() == ids_of(table),
        "log": sum(counted),
    }


def lookup(lake: Lake, given: dict[str, Any]) -> dict[str, Any]:
    """A stream that finds the rows of a table by its key, before and after they change."""
    names = created(lake, "db.names", "id bigint, name string, primary key (id)", {"bucket": "2", **given["log"]})
    probes = created(lake, "db.probes", "no bigint, id bigint", given["log"])
    joined = created(lake, "db.joined", "no bigint, name string, primary key (no)", given["log"])

    def put(table: Table, columns: dict[str, list[Any]]) -> None:
        table.write(pa.table(columns))

    put(names, {"id": list(range(500)), "name": [f"old {n}" for n in range(500)]})
    put(probes, {"no": list(range(1_000)), "id": list(range(1_000))})
    frame = lake.read_stream("db.probes", {"read.mode": "log", "scan.startup.mode": "earliest"})
    found = lake.lookup_join(frame.select("no", "id", "_row_kind"), "db.names", on="id", how="left").drop("id")
    query = lake.write_stream(found, "db.joined", f"{given['checkpoints']}/joined")
    query.processAllAvailable()
    put(names, {"id": list(range(250, 750)), "name": [f"new {n}" for n in range(250, 750)]})
    put(probes, {"no": list(range(1_000, 2_000)), "id": list(range(1_000))})
    query.processAllAvailable()
    query.stop()
    joined.seal()
    rows = joined.scan().to_arrow().to_pylist()
    kinds = Counter((row["no"] >= 1_000, (row["name"] or "none").partition(" ")[0]) for row in rows)
    return {"rows": len(rows), **{f"{'later' if late else 'first'} {kind}": n for (late, kind), n in kinds.items()}}


def refused(lake: Lake, given: dict[str, Any]) -> dict[str, Any]:
    """What fails on several machines: a warehouse on the driver's disk, and a log that is a file of one machine."""
    lake.add_catalog("here", given["local"])
    lake.sql("create database here.db")
    found: dict[str, Any] = {}
    for name, log in (("directory", "files"), ("embedded", "embedded")):
        table = created(lake, f"here.db.{name}", "id bigint, primary key (id)", {"log-store.type": log})
        try:
            lake.write(lake.spark.range(100), f"here.db.{name}")
        except LakelogError as why:
            found[name] = f"{type(why).__name__}: {why}"
        found[f"rows of {name}"] = table.scan().to_arrow().num_rows
    return found


PARTS: Final[dict[str, Callable[[Lake, dict[str, Any]], dict[str, Any]]]] = {
    "hosts": hosts,
    "batch": batch,
    "stream": stream,
    "lookup": lookup,
    "refused": refused,
}


def main() -> None:
    given = json.loads(base64.b64decode(sys.argv[1]))
    lake = connect(warehouse=given["warehouse"], settings=given["cluster"], storage_options=given["storage"])
    results = "create table if not exists db.results (part string, found string, primary key (part)) using lakelog"
    lake.sql(f"create database if not exists db; {results} tblproperties ('log-store.enabled' = 'false')")
    for name in given.get("parts", PARTS):
        found = json.dumps(PARTS[name](lake, given))
        lake.table("db.results").write(pa.table({"part": [name], "found": [found]}))
    lake.close()


if __name__ == "__main__":
    main()
