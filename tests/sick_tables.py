"""A warehouse of many tables of which five are sick, each in its own way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

from lakelog import connect
from lakelog.io.machine import process_space
from lakelog.lake import Lake
from lakelog.table.maintenance.run_history import Run, Runs

SICK = {
    "shop.carts": "dead writer",
    "shop.orders": "stores differ",
    "shop.payments": "log unreachable",
    "shop.refunds": "unreadable",
    "shop.visits": "dead run",
}
"""Table → the finding that it has."""
_BEGINS = """
import os, signal, sys
import pyarrow as pa
from lakelog import connect
lake = connect(warehouse=sys.argv[1])
rows = pa.table({"id": pa.array([7, 8, 9], pa.int64()), "name": ["lost"] * 3})
"""
_DIES = "os.kill(os.getpid(), signal.SIGKILL)"
_DIES_OPEN = f"""{_BEGINS}
writer = lake.table("shop.carts").writer()
writer.write(rows)
writer.flush()
{_DIES}
"""
_DIES_UNSEALED = f"""{_BEGINS}
import pytest
from limits import unsealed
from log_tables import trim
unsealed(pytest.MonkeyPatch())
writer = lake.table("shop.orders").writer()
writer.write(rows)
writer.commit()
trim(lake.table("shop.orders"))
{_DIES}
"""
"""The log loses decided rows before a snapshot has them. In this process a thread would seal them at its next turn."""
_LOG = "'log-store.enabled' = 'true', 'bucket' = '1', 'log.writer-timeout' = '1 s'"
_LEASE_S = 1.0


def make_sick_tables(warehouse: Path, tables: int = 200) -> None:
    """Makes them in a process of their own, which leaves nothing open; those that are well have a few rows."""
    program = f"import sick_tables; sick_tables._make_all({str(warehouse)!r}, {tables})"
    subprocess.run([sys.executable, "-c", program], env=_environment(), check=True)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def _make_all(path: str, tables: int) -> None:
    warehouse = Path(path)
    with connect(warehouse=str(warehouse)) as lake:
        lake.sql("create database shop")
        for name in SICK:
            _make(lake, name, _LOG if name != "shop.visits" else "'bucket' = '1'")
        for number in range(tables - len(SICK)):
            _make(lake, f"shop.table_{number:03}", _LOG if number % 20 == 0 else "'bucket' = '1'")
        for _ in range(6):
            lake.table("shop.visits").write(_rows(5), options={"write-only": "true"})
        _die_in_maintenance(lake)
    # last: a lake that is closed takes the rows of a dead writer back
    for program in (_DIES_OPEN, _DIES_UNSEALED):
        ended = subprocess.run([sys.executable, "-c", program, str(warehouse)], env=_environment(), check=False)
        assert ended.returncode == -signal.SIGKILL
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
