"""A query whose tasks die after some rows at their first try, on a Spark that tries again; prints JSON.

usage: retry_job.py DIRECTORY
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from lakelog import connect
from lakelog.logstore.base import LogLocation
from lakelog.logstore.clients import reader_for
from lakelog.spark.runtime.types import ArrowMap, map_in_arrow

SCHEMA = "id int, name string"


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


def main() -> None:
    root = sys.argv[1]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "2").config("spark.log.level", "ERROR")
    spark = builder.getOrCreate()
    lake = connect(spark, warehouse=f"{root}/warehouse")
    lake.sql(
        "create table db.t (id int, name string) using lakelog tblproperties ('log-store.enabled' = 'true', "
        "'bucket' = '2', 'bucket-key' = 'id', 'log-store.data-format' = 'debezium-json')"
    )
    os.mkdir(f"{root}/in")
    for part in range(2):
        with open(f"{root}/in/{part}.json", "w", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"id": i, "name": "n" * 40_000}) + "\n" for i in range(part * 30, part * 30 + 30)
            )
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").json(f"{root}/in")
    query = lake.write_stream(
        map_in_arrow(rows.repartition(2), dying_with(lake.table("db.t").logical.log), rows.schema),
        "db.t",
        f"{root}/checkpoint",
    )
    query.processAllAvailable()
    query.stop()
    table = lake.table("db.t")
    table.seal()
    net: Counter[int] = Counter()
    for row in (r for b in table.tail("earliest", stop="latest") for r in b.to_pylist()):
        net[row["id"]] += 1 if row["_row_kind"] == "+I" else -1
    committed = table.tail("earliest", stop="latest", options={"log.consistency": "transactional"})
    raw = [r for chunk in table.log_records() for r in chunk.select(["header", "value"]).to_pylist()]
    found = {
        "files": sorted(table.scan().to_arrow()["id"].to_pylist()),
        "net": sorted(net.elements()),
        "committed": sorted(n for b in committed for n in b["id"].to_pylist()),
        "records": sum(r["value"] is not None for r in raw),
        "attempts": len({r["header"].split(b"|")[4] for r in raw if r["header"].startswith(b"1|d|")}),
    }
    print(json.dumps(found), flush=True)  # noqa: T201 - its output is its result
    spark.stop()


if __name__ == "__main__":
    main()
