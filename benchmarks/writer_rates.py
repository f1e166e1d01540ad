"""Rows a second without Spark, in one process: ``writer()``, its commit, ``tail()``, and bytes a row of the log.

usage: writer_rates.py [--log embedded] [--rows N] [--rounds N]

The formats and a table without a log take turns; each result is the median of the rounds, in µs of CPU time of this
process a row (user and system), and of the clock. ``load`` is what a batch write costs in all.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from measure import log_options, make_input

from lakelog import connect
from lakelog.logstore.clients import close_clients
from lakelog.logstore.formats import LOG_FORMATS

_NO_LOG = "no log"
_BATCH = 50_000


def writer_rates(log: str, rows: int, rounds: int) -> dict[str, Any]:
    """Format → step → µs a row, by CPU and by the clock, and bytes a row."""
    with pa.memory_map(make_input(rows)) as file:
        batches = pa.ipc.open_file(file).read_all().combine_chunks().to_batches(max_chunksize=_BATCH)
    names = [*sorted(LOG_FORMATS), _NO_LOG]
    times: dict[str, dict[str, list[tuple[float, float]]]] = {name: defaultdict(list) for name in names}
    bytes_a_row: dict[str, float] = {}
    with log_options(log) as options:
        for number in range(rounds):
            for name in names if number % 2 else reversed(names):
                bytes_a_row[name] = _round(name, options, batches, times[name]) / rows
    out: dict[str, Any] = {}
    for name, steps in times.items():
        medians = {
            f"{step}, µs a row": [statistics.median(t) / rows * 1e6 for t in zip(*taken, strict=True)]
            for step, taken in steps.items()
        }
        out[name] = {step: {"cpu": round(cpu, 2), "wall": round(wall, 2)} for step, (cpu, wall) in medians.items()}
        if bytes_a_row[name]:  # of a broker they are not measured
            out[name]["log bytes a row"] = round(bytes_a_row[name], 1)
    return out


@contextlib.contextmanager
def _timed(into: list[tuple[float, float]]) -> Iterator[None]:
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    into.append((time.process_time() - cpu, time.perf_counter() - wall))


def _round(name: str, options: str, batches: list[pa.RecordBatch], times: dict[str, list[tuple[float, float]]]) -> int:
    """Takes the times of one table; returns the size of its log, if that is a file."""
    warehouse = tempfile.mkdtemp(prefix="lakelog-bench-")
    lake = connect(warehouse=warehouse)
    more = "" if name == _NO_LOG else f", 'log-store.enabled' = 'true', {options} 'log-store.data-format' = '{name}'"
    lake.sql(
        "create table db.t (id bigint, grp int, amount double, name string, primary key (id)) using lakelog "
        f"tblproperties ('bucket' = '2', 'write-only' = 'true'{more})"
    )
    table = lake.table("db.t")
    rows = sum(batch.num_rows for batch in batches)
    with _timed(times["load"]), table.writer() as writer:
        with _timed(times["write"]):
            for batch in batches:
                writer.write(batch)
        with _timed(times["commit"]):
            writer.commit()
    size = 0
    if name != _NO_LOG:
        for step, columns in (("tail", None), ("tail 2 columns", ["id", "amount"])):
            with _timed(times[step]):
                found = sum(b.num_rows for b in table.tail("earliest", columns=columns, stop="latest"))
            assert found == rows, f"{name}: {found} of {rows} rows"
        log = table.logical.log
        assert log is not None
        files = [log.address + suffix for suffix in ("", "-wal")]
        size = sum(os.path.getsize(file) for file in files if os.path.exists(file))
    lake.sql("drop table db.t")
    close_clients()
    shutil.rmtree(warehouse)
    return size


def main() -> None:
    """Reads the command line, prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", default="embedded")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for name, found in writer_rates(given.log, given.rows, given.rounds).items():
        print(f"{name}: {found}")


if __name__ == "__main__":
    main()
