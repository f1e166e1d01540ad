"""A warehouse of many tables of which five are sick, each in its own way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.io.machine import process_space
from lakelog.lake import Lake
from lakelog.table.maintenance.run_history import Run, Runs
from limits import unsealed
from log_tables import trim

SICK = {
    "shop.carts": "dead writer",
    "shop.orders": "stores differ",
    "shop.payments": "log unreachable",
    "shop.refunds": "unreadable",
    "shop.visits": "dead run",
}
"""Table → the finding that it has."""
_DIES = """
import os, signal, sys
import pyarrow as pa
from lakelog import connect
writer = connect(warehouse=sys.argv[1]).table("shop.carts").writer()
writer.write(pa.table({"id": pa.array([7, 8, 9], pa.int64()), "name": ["lost"] * 3}))
writer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
_LOG = "'log-store.enabled' = 'true', 'bucket' = '1', 'log.writer-timeout' = '1 s'"
_LEASE_S = 1.0


def make_sick_tables(warehouse: Path, tables: int = 200) -> None:
    """Makes them; those that are well have a few rows."""
    with connect(warehouse=str(warehouse)) as lake:
        lake.sql("create database shop")
        for name in SICK:
            _make(lake, name, _LOG if name != "shop.visits" else "'bucket' = '1'")
        for number in range(tables - len(SICK)):
            _make(lake, f"shop.table_{number:03}", _LOG if number % 20 == 0 else "'bucket' = '1'")
        with pytest.MonkeyPatch.context() as patch, lake.table("shop.orders").writer() as writer:
            unsealed(patch)
            writer.write(_rows(5))
            writer.commit()
            trim(lake.table("shop.orders"))
        for _ in range(6):
            lake.table("shop.visits").write(_rows(5), options={"write-only": "true"})
        _die_in_maintenance(lake)
    # last: a lake that is closed takes the rows of a dead writer back
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", _DIES, str(warehouse)], env=env, check=False)
    time.sleep(_LEASE_S)  # until then it counts as alive, and the next look at one of many tables may be minutes later
    place = warehouse / "shop.db"
    next(place.glob("payments/**/log.sqlite")).write_bytes(b"not a database" * 100)
    for path in (place / "refunds" / "schema").iterdir():
        path.write_bytes(b"{")


def _make(lake: Lake, name: str, options: str) -> None:
    lake.sql(f"create table {name} (id bigint, name string, primary key (id)) tblproperties ({options})")
    lake.table(name).write(_rows(20))


def _rows(count: int) -> pa.Table:
    return pa.table({"id": range(count), "name": ["n"] * count})


def _die_in_maintenance(lake: Lake) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    table = lake.table("shop.visits")
    run = Run(table.name, "compaction", "", 1_000, process_space(), ended.pid, id="0" * 16)
    Runs(table.logical.io, table.path).record(run)
