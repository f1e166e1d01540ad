"""Rows a second of the double write in Spark: the log and staged files, on all cores, and of reading the log back."""

from __future__ import annotations

import json
import tempfile
import time
from typing import Any

from measure import CREATE, log_options, make_input, tree_rss_mb

from lakelog import connect
from lakelog.spark.session.replay_source import ReplaySource

_LOOKS = 6


def double_write(
    log: str, rows: int, buckets: int = 4, step: int = 200_000, form: str = "debezium-json"
) -> dict[str, Any]:
    """Micro-batches of ``step`` rows as fast as they are taken; the first two are warm-up. The second figure reads the
    log. ``form`` is the log's format. The memory of the process tree is looked at after each sixth of the rows, too.
    """
    path = make_input(rows)
    with log_options(log) as options, connect(warehouse=tempfile.mkdtemp()) as lake:
        lake.sql("create database bench")
        options += f"'log-store.data-format' = '{form}', "
        lake.sql(CREATE.format(buckets=buckets, log=options, mode="upsert", key=", primary key (id)"))
        lake.spark.dataSource.register(ReplaySource)
        source = lake.spark.readStream.format("lakelog-replay").options(
            path=path, rate=10**9, paced_rows=0, burst=step, start_ms=time.time_ns() // 1_000_000
        )
        writing = lake.write_stream(source.load().repartition(2), "bench.t")
        held: list[float] = []
        while (done := _rows_done(writing)) < rows:
            if writing.exception() is not None:
                raise writing.exception()
            if done * _LOOKS >= rows * (len(held) + 1):
                held.append(tree_rss_mb())
            time.sleep(0.2)
        steps = [p for p in writing.recentProgress if p.numInputRows > 0][2:]
        write_rate = sum(p.numInputRows for p in steps) / sum(p.durationMs["triggerExecution"] for p in steps) * 1000
        memory = tree_rss_mb()
        writing.stop()
        counted: list[int] = []
        reader = lake.sql(
            "select id, amount from bench.t /*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */"
        )
        started = time.perf_counter()
        reading = (
            reader.writeStream.foreachBatch(lambda b, _: counted.append(b.count())).trigger(availableNow=True).start()
        )
        reading.awaitTermination()
        read_s = time.perf_counter() - started
        assert sum(counted) >= rows
    return {
        "write_rows_s": round(write_rate),
        "read_rows_s": round(sum(counted) / read_s),
        "rss_mb": memory,
        "rss_mb_by_sixth": held,
        "rows": rows,
    }


def _rows_done(query: Any) -> int:
    """How many rows of its source a query has taken."""
    if query.lastProgress is None:
        return 0
    done: int = json.loads(query.lastProgress.sources[0].endOffset)["row"]
    return done
