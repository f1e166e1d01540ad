"""One query of Nexmark in PyFlink, in a Python of its own: Kafka topics in, a Kafka topic out; prints seconds and CPU.

usage: nexmark_flink.py, with the work as JSON on the standard input
"""

from __future__ import annotations

import json
import os
import sys
import time

from process_tree import cpu_seconds
from pyflink.table import EnvironmentSettings, TableEnvironment


def _table(name: str, columns: dict[str, str], key: list[str], topic: str, bootstrap: str, bounded: str) -> str:
    shown = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    named = ", ".join(f"`{column}`" for column in key)
    return (
        f"create temporary table `{name}` ({shown}, primary key ({named}) not enforced) with ("
        f"'connector' = 'upsert-kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}', "
        f"'key.format' = 'json', 'value.format' = 'json'{bounded})"
    )


def main() -> None:
    work = json.load(sys.stdin)
    table_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "pipeline.jars": ";".join(f"file://{jar}" for jar in work["jars"]),
        "parallelism.default": "2",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 s",
        "table.exec.mini-batch.size": "20000",
        "pipeline.object-reuse": "true",
    }.items():
        table_env.get_config().set(key, value)
    for run in work["runs"]:
        for name, columns in work["tables"].items():
            table_env.execute_sql(f"drop temporary table if exists `{name}`")
            topic = f"{run['topics']}-{name}"
            bounded = ", 'scan.bounded.mode' = 'latest-offset'"
            table_env.execute_sql(_table(name, columns, ["id"], topic, work["bootstrap"], bounded))
        table_env.execute_sql("drop temporary table if exists sink")
        columns, sink = work["columns"], run["sink"]
        table_env.execute_sql(_table("sink", columns, list(columns)[: work["key"]], sink, work["bootstrap"], ""))
        wall, cpu = time.perf_counter(), cpu_seconds(os.getpid())
        table_env.execute_sql(f"insert into sink {work['query']}").wait()
        done = {"seconds": time.perf_counter() - wall, "cpu_seconds": cpu_seconds(os.getpid()) - cpu}
        print("done", json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
