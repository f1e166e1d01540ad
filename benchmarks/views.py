"""What materialized views cost without Spark: changes per second, freshness at a steady rate, memory, disk.

usage: views.py [--rows 1000000] [--seconds 30] [--results DIR]

A source has some number of rows. A refresh takes as many changes of keys, 70 % of them updates, in commits of 100,000
rows. Freshness is the time from the begin of a write of 100 rows to the commit of the view that has them, at 1,000
changes per second, by a runner in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from results import busy_cores, write_results

from lakelog import connect
from lakelog.lake import Lake
from lakelog.sql.views.refresh import ViewRefresher

_COMMIT_ROWS = 100_000
_LOOK_S = 0.02
"""Pause between two looks at a view, so the error of its freshness."""
_VIEWS = {
    "count and sum": "select g, count(*) as n, sum(v) as s from db.t group by g",
    "with max and count distinct": "select g, count(*) as n, sum(v) as s, max(v) as m, count(distinct c) as d "
    "from db.t group by g",
    "filter": "select id, v from db.t where v > 500",
    "join of two tables": "select t.id, t.v, u.w from db.t join db.u on t.id = u.id",
}
_RUNNER = """
import sys, lakelog
lake = lakelog.connect(sys.argv[1])
print("ready", flush=True)
for refresh in lake.views.run(): pass
"""


def _rows(draw: np.random.Generator, ids: np.ndarray, groups: int) -> pa.Table:
    number = len(ids)
    return pa.table(
        {
            "id": ids,
            "g": draw.integers(0, groups, number),
            "c": draw.integers(0, 50, number),
            "v": draw.integers(0, 1000, number),
        }
    )


def _filled(warehouse: str, rows: int, compacts: bool = False) -> Lake:
    lake, draw = connect(warehouse), np.random.default_rng(7)
    lake.sql("create database db")
    options = f"tblproperties ('write-only' = '{str(not compacts).lower()}', 'commit.interval' = '1 h')"
    lake.sql(f"create table db.t (id bigint, g bigint, c bigint, v bigint, primary key (id)) using lakelog {options}")
    lake.sql(f"create table db.u (id bigint, w bigint, primary key (id)) using lakelog {options}")
    for start in range(0, rows, _COMMIT_ROWS):
        ids = np.arange(start, min(rows, start + _COMMIT_ROWS))
        lake.write(_rows(draw, ids, rows // 100), "db.t")
        lake.write(pa.table({"id": ids, "w": ids * 3}), "db.u")
    for name in ("db.t", "db.u"):
        lake.table(name).compact()
    return lake


def rates(rows: int) -> dict[str, Any]:
    """Changes per second of a refresh, by view."""
    out: dict[str, Any] = {}
    for name, query in _VIEWS.items():
        warehouse = tempfile.mkdtemp(prefix="lakelog-views-")
        lake, draw = _filled(warehouse, rows), np.random.default_rng(11)
        began = time.perf_counter()
        lake.sql(f"create materialized view db.v refresh manual as {query}")
        created = time.perf_counter() - began
        refresher = ViewRefresher(lake._session, lake._session.identifier("db.v"), warehouse)
        lake.write(_rows(draw, np.array([0]), 10), "db.t")
        refresher.refresh()  # fills the local state
        seconds, cpu, changed = 0.0, 0.0, 0
        for start in range(0, rows, _COMMIT_ROWS):
            number = min(_COMMIT_ROWS, rows - start)
            fresh = np.arange(rows + start, rows + start + number * 3 // 10)
            ids = np.concatenate([draw.choice(rows, number - len(fresh), replace=False), fresh])
            lake.write(_rows(draw, ids, rows // 100), "db.t")
            wall, used = time.perf_counter(), time.process_time()
            refresher.refresh()
            seconds, cpu, changed = (
                seconds + time.perf_counter() - wall,
                cpu + time.process_time() - used,
                changed + number,
            )
        state = sum(file.stat().st_size for file in Path(warehouse).rglob("state.db*"))
        stored = sum(file.stat().st_size for file in (Path(warehouse) / "db.db" / "v").rglob("bucket-*/*"))
        out[name] = {
            "changes_per_s": round(changed / seconds),
            "cpu_us_per_change": round(cpu / changed * 1e6, 2),
            "create_s": round(created, 2),
            "state_mb": round(state / 1e6, 1),
            "view_mb": round(stored / 1e6, 1),
            "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
        }
        print(name, out[name], flush=True)
        refresher.close()
        shutil.rmtree(warehouse, ignore_errors=True)
    return out


def freshness(rows: int, seconds: float) -> dict[str, Any]:
    """Milliseconds from the begin of a write to the commit of the view that has it, at 1,000 changes per second."""
    warehouse = tempfile.mkdtemp(prefix="lakelog-views-")
    lake, draw = _filled(warehouse, rows, compacts=True), np.random.default_rng(13)
    lake.sql("create materialized view db.v as select count(*) as n, max(id) as newest from db.t where id >= 0")
    lake.sql(f"create materialized view db.g as {_VIEWS['count and sum']}")
    process = subprocess.Popen([sys.executable, "-c", _RUNNER, warehouse], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline().strip() == "ready"
    written: dict[int, float] = {}
    lags: list[float] = []
    newest, end = rows, time.perf_counter() + seconds
    while time.perf_counter() < end:
        due = time.perf_counter() + 0.1
        ids = np.concatenate([draw.choice(rows, 99, replace=False), np.array([newest])])
        written[newest] = time.perf_counter()
        lake.write(_rows(draw, ids, rows // 100), "db.t")
        newest += 1
        while True:
            _take_seen(lake, written, lags)
            if time.perf_counter() > due - _LOOK_S:
                break
            time.sleep(_LOOK_S)
        time.sleep(max(0.0, due - time.perf_counter()))
    stop = time.perf_counter() + 20
    while written and time.perf_counter() < stop:
        _take_seen(lake, written, lags)
        time.sleep(0.01)
    process.terminate()
    process.wait()
    shutil.rmtree(warehouse, ignore_errors=True)
    ordered = sorted(lags)
    return {
        "writes": len(ordered),
        "lost": len(written),
        "p50_ms": round(statistics.median(ordered) * 1e3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99) - 1] * 1e3),
    }


def _take_seen(lake: Lake, written: dict[int, float], lags: list[float]) -> None:
    """Notes the writes whose newest id the view has by now."""
    seen = lake.table("db.v").scan(["newest"]).to_arrow()["newest"].to_pylist()[0]
    now = time.perf_counter()
    for number in [number for number in written if number <= seen]:
        lags.append(now - written.pop(number))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    busy = busy_cores()
    figures = {f"{name}, {given.rows} changes": cells for name, cells in rates(given.rows).items()}
    figures["freshness at 1000 changes a second"] = freshness(given.rows // 10, given.seconds)
    print(figures)
    if given.results is not None:
        write_results(given.results, {"materialized views": figures}, busy)


if __name__ == "__main__":
    main()
