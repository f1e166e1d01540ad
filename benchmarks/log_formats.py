"""Rows a second of the log formats, in one process without Spark: encode, append, read and decode.

usage: log_formats.py [--log embedded,kafka,pulsar] [--rows N] [--rounds N]

The formats take turns, round by round; each measurement is the median of the rounds. ``cpu`` is user and system time of
this process, in which the client of the log works, too.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from measure import log_options, make_input

from lakelog import connect
from lakelog.logstore.clients import appender_for
from lakelog.logstore.formats import LOG_FORMATS
from lakelog.table.log.scan import LogScan

_BATCH = 50_000
_HEADER = b"1|d|0123456789abcdef|0|0123456789abcdef"


def format_rates(log: str, rows: int, rounds: int) -> dict[str, Any]:
    """Format → step → million rows a second, by the clock and by CPU time."""
    with pa.memory_map(make_input(rows)) as file:
        batches = pa.ipc.open_file(file).read_all().combine_chunks().to_batches(max_chunksize=_BATCH)
    times: dict[str, dict[str, list[tuple[float, float]]]] = {name: {} for name in LOG_FORMATS}
    with log_options(log) as options:
        for number in range(rounds + 1):
            for name in sorted(LOG_FORMATS) if number % 2 else sorted(LOG_FORMATS, reverse=True):
                for step, taken in _round(name, options, batches).items():
                    if number:  # the first one is warm-up
                        times[name].setdefault(step, []).append(taken)
    out: dict[str, Any] = {"peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "rows": rows}
    for name, steps in times.items():
        rates = {
            step: [rows / statistics.median(t) / 1e6 for t in zip(*taken, strict=True)] for step, taken in steps.items()
        }
        out[name] = {step: {"wall": round(wall, 2), "cpu": round(cpu, 2)} for step, (wall, cpu) in rates.items()}
    return out


def _round(name: str, options: str, batches: list[pa.RecordBatch]) -> dict[str, tuple[float, float]]:
    lake = connect(warehouse=tempfile.mkdtemp(prefix="lakelog-bench-"))
    lake.sql(
        "create table db.t (id bigint, grp int, amount double, name string, primary key (id)) using lakelog "
        f"tblproperties ('bucket' = '1', 'log-store.enabled' = 'true', {options} 'log-store.data-format' = '{name}')"
    )
    table = lake.table("db.t").logical
    assert table.log is not None
    scan, form, appender = LogScan(table), table.record_format, appender_for(table.log)
    records: list[Any] = []
    read: list[pa.Table] = []

    def encode() -> int:
        places = {0: np.arange(_BATCH)}
        for batch in batches:
            kinds = np.zeros(batch.num_rows, np.int8)
            here = places if batch.num_rows == _BATCH else {0: np.arange(batch.num_rows)}
            records.append(form.messages(batch, kinds, "upsert", ["id"], _HEADER, here)[0].records)
        return sum(batch.num_rows for batch in batches)

    def append() -> int:
        for made in records:
            appender.append(0, made)
            appender.flush()
        return sum(batch.num_rows for batch in batches)

    def fetch() -> int:
        read.extend(scan.records("earliest"))
        return sum(batch.num_rows for batch in batches)

    def decode() -> int:
        return sum(scan.decode(found).num_rows for found in read)

    steps: dict[str, Callable[[], int]] = {"encode": encode, "append": append, "read": fetch, "decode": decode}
    out = {}
    for step, work in steps.items():
        wall, cpu = time.perf_counter(), time.process_time()
        done = work()
        out[step] = time.perf_counter() - wall, time.process_time() - cpu
        assert done == sum(batch.num_rows for batch in batches), f"{step} of {name}"
    appender_s, reader_s = (
        tuple(map(sum, zip(out[a], out[b], strict=True))) for a, b in (("encode", "append"), ("read", "decode"))
    )
    lake.sql("drop table db.t")
    return out | {"write": appender_s, "read whole": reader_s}


def main() -> None:
    """Reads the command line, prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", default="embedded")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    for log in given.log.split(","):
        for key, found in format_rates(log, given.rows, given.rounds).items():
            print(f"{log} {key}: {found}")


if __name__ == "__main__":
    main()
