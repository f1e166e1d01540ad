"""Latency of a row from Spark through the log to Spark: both queries in one session, files staged and sealed beside
it.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from measure import CREATE, log_options, make_input, percentiles, tree_rss_mb

from lakelog import LOW_LATENCY, connect
from lakelog.spark.session.replay_source import ReplaySource


def spark_to_spark(
    log: str, buckets: int, seconds: float, rate: int = 1_000, warm_up_s: float = 25.0
) -> dict[str, Any]:
    """Rows of ``rate`` a second are written by one streaming query and read by another; ms from due to seen."""
    samples: list[tuple[float, np.ndarray]] = []

    def seen(batch: Any, _: int) -> None:
        sent = batch.select("sent_at").toArrow().column(0)
        now = time.time_ns() / 1e6
        samples.append((now, now - pc.cast(sent, pa.int64()).to_numpy() / 1000))

    path = make_input(round(rate * (seconds + warm_up_s)) + 1)
    with log_options(log) as options, connect(warehouse=tempfile.mkdtemp(), settings=LOW_LATENCY) as lake:
        lake.sql("create database bench")
        lake.sql(CREATE.format(buckets=buckets, log=options, mode="upsert", key=", primary key (id)"))
        lake.spark.dataSource.register(ReplaySource)
        reader = lake.sql("select sent_at from bench.t /*+ OPTIONS('read.mode'='log') */")
        reading = reader.writeStream.foreachBatch(seen).start()
        start_ms = time.time_ns() // 1_000_000 + 3_000
        source = lake.spark.readStream.format("lakelog-replay").options(
            path=path, rate=rate, paced_rows=10**9, burst=100_000, start_ms=start_ms
        )
        writing = lake.write_stream(source.load(), "bench.t")
        time.sleep(3 + warm_up_s + seconds)
        for query in (reading, writing):
            if query.exception() is not None:
                raise query.exception()
        write_ms, read_ms = writing.lastProgress.durationMs, reading.lastProgress.durationMs
        memory = tree_rss_mb()
        reading.stop()
        writing.stop()
    steady = [values for at, values in samples if at > start_ms + warm_up_s * 1000]
    found = percentiles(np.concatenate(steady) if steady else np.array([]))
    return {"latency_ms": found, "write_ms": dict(write_ms), "read_ms": dict(read_ms), "rss_mb": memory}
