"""The demo's job on real input: the flights of 2013 are written to one table, read and checked at the same time."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import LakelogError, Unavailable
from lakelog.io.clock import monotonic_s, now_ms, sleep
from lakelog.lake import LOW_LATENCY, Lake, connect
from lakelog.logstore import log_system_at
from lakelog.options.log import LOG_ADDRESS, LOG_TYPE
from lakelog.options.registry import Registry
from lakelog.service.demo.check import CarrierDelay, DemoProgress, DemoReport, DemoSettings, Latency, check_equal
from lakelog.service.demo.flights import changes
from lakelog.service.servers import SERVERS

TABLE = "demo.flights"
_CREATE = """create table {table} (
    flight_id bigint, carrier string, flight int, origin string, dest string,
    scheduled timestamp, departed timestamp, arrived timestamp,
    dep_delay double, arr_delay double, status string, sent_at timestamp,
    primary key (flight_id)
) using lakelog tblproperties (
    'bucket' = '2', 'log-store.enabled' = 'true', {log}
    'log-store.data-format' = 'debezium-json', 'log.changelog-mode' = 'all', 'commit.interval' = '2 s'
)"""
"""The format is the one that ``check`` reads without lakelog."""

_PACED_PART = 0.6
"""Share of the time with rows at the measured rate; then the rest of the year follows at full speed."""

_WARM_UP_S = 10.0
"""Seconds at the start without latencies, while the session warms up."""

_START_MS = 10_000
"""Seconds from the start of the queries to the first row, because a new session is slow."""

_BURST_ROWS = 100_000
_READ_FILES_EVERY_S = 3.0

_SOURCES: Registry[Any] = Registry("source", {"replay": "lakelog.spark.session.replay_source:ReplaySource"})


@dataclass
class _Samples:
    """Latencies in ms; thread-safe because they are only appended."""

    values: list[np.ndarray] = field(default_factory=list)

    def add(self, sent_at: pa.ChunkedArray | pa.Array, seen_ms: float) -> None:
        sent_ms = pc.cast(sent_at, pa.int64()).to_numpy(zero_copy_only=False) / 1000.0
        self.values.append(seen_ms - sent_ms)

    def latency(self) -> Latency | None:
        every = np.concatenate([*self.values, np.array([])])
        if not len(every):
            return None
        p50, p99 = np.percentile(every, [50, 99])
        return Latency(round(float(p50), 1), round(float(p99), 1), len(every))


def run_demo(settings: DemoSettings) -> Iterator[DemoProgress | DemoReport]:
    """Runs the demo; yields its progress a few times per second, and the report at the end.

    Raises Unavailable if the broker or Spark cannot be reached. Stops everything that it has started.
    """
    with contextlib.ExitStack() as cleanup:
        yield DemoProgress("reading the flights", 0.0, settings.seconds)
        rows = changes()
        warehouse = settings.warehouse or tempfile.mkdtemp(prefix="lakelog-demo-")
        system, address = settings.log or log_system_at(settings.address), settings.address
        if address is None and system in SERVERS:
            yield DemoProgress(f"starting a server of {system} (the first time downloads it)", 0.0, settings.seconds)
            server = SERVERS.create(system, tempfile.mkdtemp(prefix=f"lakelog-{system}-"))
            address = cleanup.enter_context(server).address
        log = f"'{LOG_TYPE.key}' = '{system}', " + (f"'{LOG_ADDRESS.key}' = '{address}', " if address else "")
        yield DemoProgress("starting Spark", 0.0, settings.seconds)
        lake = cleanup.enter_context(connect(warehouse=warehouse, settings=LOW_LATENCY))
        lake.sql("create database if not exists demo")
        lake.sql(f"drop table if exists {TABLE}")
        lake.sql(_CREATE.format(table=TABLE, log=log))
        replayed = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="lakelog-replay-"))) / "changes.arrow"
        run = _Run(lake, settings, rows, replayed)
        cleanup.callback(run.stop)
        yield from run.stream()
        yield run.progress("comparing every row")
        yield run.report(warehouse)


class _Run:
    """The two queries, the tail and the batch reads of one demo."""

    def __init__(self, lake: Lake, settings: DemoSettings, rows: pa.Table, replayed: Path) -> None:
        self._lake, self._settings = lake, settings
        self._table = lake.table(TABLE)
        self._total = rows.num_rows
        self._paced = min(self._total, round(settings.rate * settings.seconds * _PACED_PART))
        self._replayed = replayed
        with pa.OSFile(str(self._replayed), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as file:
            file.write_table(rows)
        self._log, self._tail, self._files = _Samples(), _Samples(), _Samples()
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._read = self._file_rows = 0
        self._delays = pl.DataFrame(schema={"carrier": pl.String, "flights": pl.Int64, "delay": pl.Float64})
        self._queries: list[Any] = []
        self._began = monotonic_s()
        self._measured_from = self._measured_to = 0

    def stream(self) -> Iterator[DemoProgress]:
        """Starts everything, and yields the progress until the whole year has been read from the log."""
        reader = self._lake.sql(
            f"select * from {TABLE} /*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */"
        )
        self._queries.append(reader.writeStream.foreachBatch(self._on_batch).start())
        start_ms = now_ms() + _START_MS
        self._measured_from = start_ms + round(min(_WARM_UP_S, self._settings.seconds / 4) * 1000)
        self._measured_to = start_ms + round(self._paced * 1000 / self._settings.rate)
        self._lake.spark.dataSource.register(_SOURCES.load("replay"))
        source = self._lake.spark.readStream.format("lakelog-replay").options(
            path=str(self._replayed),
            rate=self._settings.rate,
            paced_rows=self._paced,
            burst=_BURST_ROWS,
            start_ms=start_ms,
        )
        self._queries.append(self._lake.write_stream(source.load(), TABLE))
        for work in (self._follow_tail, self._read_files):
            threading.Thread(target=self._guard, args=(work,), daemon=True).start()
        while self._read < self._total:
            sleep(0.25)
            self._raise_failures()
            stage = "streaming" if now_ms() > start_ms else "starting the queries"
            yield self.progress("the rest of the year, at full speed" if now_ms() > self._measured_to else stage)

    def progress(self, stage: str) -> DemoProgress:
        top = self._delays.filter(pl.col("flights") > 0).sort("flights", descending=True).head(8)
        return DemoProgress(
            stage=stage,
            elapsed_s=monotonic_s() - self._began,
            total_s=self._settings.seconds,
            rows_sent=self._sent(),
            rows_read=self._read,
            file_rows=self._file_rows,
            snapshots=self._snapshots(),
            log_latency_ms=self._log.latency(),
            tail_latency_ms=self._tail.latency(),
            file_latency_ms=self._files.latency(),
            aggregate=tuple(CarrierDelay(c, n, d / n) for c, n, d in top.iter_rows()),
        )

    def report(self, warehouse: str) -> DemoReport:
        """Stops the queries, seals, and compares the batch read with the fold of the log, row by row."""
        elapsed = monotonic_s() - self._began
        self.stop()
        check = check_equal(self._table)
        return DemoReport(
            log=self._table.logical.log.system if self._table.logical.log else "",
            seconds=round(elapsed, 1),
            rows_sent=self._total,
            log_rows=check.log_rows,
            rows_per_second=round(self._burst_rate(), 1),
            log_latency_ms=self._log.latency(),
            tail_latency_ms=self._tail.latency(),
            file_latency_ms=self._files.latency(),
            equal=check.equal,
            rows_compared=check.rows_compared,
            snapshots=self._snapshots(),
            table=TABLE,
            table_path=self._table.path,
            warehouse=warehouse,
            differences=check.differences,
        )

    def stop(self) -> None:
        """Stops everything; may be called twice."""
        self._stop.set()
        for query in self._queries:
            with contextlib.suppress(Exception):
                query.stop()
        self._queries.clear()

    def _on_batch(self, batch: Any, _: int) -> None:
        rows = batch.select("carrier", "arr_delay", "status", "sent_at", "_row_kind").toArrow()
        seen = float(now_ms())
        self._read += rows.num_rows
        self._sample(self._log, rows, seen)
        signed = pl.DataFrame(rows).lazy().filter(pl.col("arr_delay").is_not_null())
        sign = pl.when(pl.col("_row_kind").is_in(["+I", "+U"])).then(1).otherwise(-1)
        change = signed.group_by("carrier").agg(
            flights=sign.cast(pl.Int64).sum(), delay=(sign * pl.col("arr_delay")).sum()
        )
        both = pl.concat([self._delays, change.collect()])
        self._delays = both.group_by("carrier").agg(pl.col("flights").sum(), pl.col("delay").sum())

    def _sample(self, samples: _Samples, rows: pa.Table, seen_ms: float) -> None:
        if self._measured_from <= seen_ms <= self._measured_to:
            new = rows.filter(pc.is_in(rows.column("_row_kind"), pa.array(["+I", "+U"])))
            samples.add(new.column("sent_at"), seen_ms)

    def _follow_tail(self) -> None:
        for batch in self._table.tail(columns=["sent_at"]):
            seen = float(now_ms())
            self._sample(self._tail, pa.Table.from_batches([batch]), seen)
            if self._stop.is_set() or seen > self._measured_to:
                return

    def _read_files(self) -> None:
        while not self._stop.wait(_READ_FILES_EVERY_S):
            rows = self._lake.sql(f"select count(*) as n, max(sent_at) as newest from {TABLE}").toArrow()
            self._file_rows = rows.column("n")[0].as_py()
            seen = float(now_ms())
            if self._file_rows and self._measured_from <= seen <= self._measured_to:
                self._files.add(rows.column("newest"), seen)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as failure:
            if not self._stop.is_set():
                self._failure = failure

    def _raise_failures(self) -> None:
        for query in self._queries:
            failure = query.exception()
            if failure is not None:
                raise Unavailable(f"a streaming query of the demo failed: {failure}")
        if isinstance(self._failure, LakelogError):
            raise self._failure
        if self._failure is not None:
            raise Unavailable(f"the demo failed: {self._failure}")

    def _sent(self) -> int:
        progress = self._queries[-1].lastProgress if len(self._queries) > 1 else None
        return self._read if progress is None else max(self._read, orjson.loads(progress.sources[0].endOffset)["row"])

    def _snapshots(self) -> int:
        snapshot = self._table.latest_snapshot()
        return 0 if snapshot is None else snapshot.id

    def _burst_rate(self) -> float:
        burst = self._total - self._paced
        seconds = (now_ms() - self._measured_to) / 1000
        return burst / seconds if burst > 0 and seconds > 0 else float(self._settings.rate)
