"""Rows a second of the double write in Spark: the log and staged files, on all cores, and of reading the log back."""

from __future__ import annotations

import json
import os
import tempfile
import time
from typing import Any

from cpu_account import CpuAccount, per_row
from measure import CREATE, log_options, make_input, tree_rss_mb

from lakelog import HIGH_THROUGHPUT, connect
from lakelog.lake import Lake
from lakelog.spark.session.replay_source import ReplaySource

_LOOKS = 6
_WARM_UP = 1_000_000
"""Rows that are not measured: so many rows later, the JVM has compiled what it will run."""


def double_write(
    log: str, rows: int, buckets: int = 4, step: int = 200_000, form: str = "debezium-json", warm_up: int = _WARM_UP
) -> dict[str, Any]:
    """Micro-batches of ``step`` rows as fast as they are taken, after ``warm_up`` rows; then the log is read, twice.

    ``form`` is the log's format. Each result has its CPU account, in µs a row. The memory of the process tree is
    measured after each sixth of the rows, too. A session with ``HIGH_THROUGHPUT``, and a source with as many tasks as
    cores.
    """
    cores = os.cpu_count() or 2
    path = make_input(warm_up + rows)
    with (
        CpuAccount(os.getpid()) as account,
        log_options(log) as options,
        connect(warehouse=tempfile.mkdtemp(), settings=HIGH_THROUGHPUT) as lake,
    ):
        lake.sql("create database bench")
        options += f"'log-store.data-format' = '{form}', "
        lake.sql(CREATE.format(buckets=buckets, log=options, mode="upsert", key=", primary key (id)"))
        lake.spark.dataSource.register(ReplaySource)
        source = lake.spark.readStream.format("lakelog-replay").options(
            path=path, rate=10**9, paced_rows=0, burst=step, partitions=cores, start_ms=time.time_ns() // 1_000_000
        )
        writing = lake.write_stream(source.load(), "bench.t")
        held: list[float] = []
        first, began, before = 0, 0.0, {}
        while (done := _rows_done(writing)) < warm_up + rows:
            if writing.exception() is not None:
                raise writing.exception()
            if not before and done >= warm_up:
                first, began, before = done, time.perf_counter(), account.take()
            if done * _LOOKS >= (warm_up + rows) * (len(held) + 1):
                held.append(tree_rss_mb())
            time.sleep(0.05)
        written, write_s = warm_up + rows - first, time.perf_counter() - began
        out: dict[str, Any] = {
            "write_rows_s": round(written / write_s),
            "write_cpu_us": per_row(before, account.take(), written),
            "rss_mb": tree_rss_mb(),
            "rss_mb_by_sixth": held,
        }
        writing.stop()
        out |= _read(lake, account, warm_up + rows, "read")
        out |= _read(lake, account, warm_up + rows, "second_read")
    return out | {"rows": rows, "warm_up_rows": warm_up}


def _read(lake: Lake, account: CpuAccount, rows: int, name: str) -> dict[str, Any]:
    """Rows a second and CPU of one query that reads two columns of the whole log, with the start of the query."""
    counted: list[int] = []
    reader = lake.sql(
        "select id, amount from bench.t /*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */"
    )
    began, before = time.perf_counter(), account.take()
    reading = reader.writeStream.foreachBatch(lambda b, _: counted.append(b.count())).trigger(availableNow=True).start()
    reading.awaitTermination()
    seconds, after = time.perf_counter() - began, account.take()
    assert sum(counted) >= rows
    return {f"{name}_rows_s": round(sum(counted) / seconds), f"{name}_cpu_us": per_row(before, after, sum(counted))}


def _rows_done(query: Any) -> int:
    """How many rows of its source a query has taken."""
    if query.lastProgress is None:
        return 0
    done: int = json.loads(query.lastProgress.sources[0].endOffset)["row"]
    return done
