"""``lakelog ingest`` under load, schema changes and kills: is each table equal to the database, and how far behind?

usage: PYTHONPATH=tests python benchmarks/ingest_postgres.py [--minutes 10] [--accounts 200000] [--kills 20]
       [--rate 100] [--option KEY=VALUE …] [--json FILE] [--reports FILE]

A real PostgreSQL has the tables of pgbench, and ``history`` no key. Phases: a copy into an empty table; minutes of
transactions at a rate, with schema changes, while the process that ingests and the server are killed; a burst that is
read from the slot at once. The log is embedded, so a kill of the process is one of the log, too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from lakelog import connect
from servers.postgres_server import PostgresServer
from source_database import SourceDatabase, differences

TABLES = ("accounts", "tellers", "branches", "history")
STEADY_S = 10.0
"""Age of a process from which on its lag does not have the time of its start in it."""


def make_tables(database: SourceDatabase, accounts: int) -> None:
    database.run(
        "create table branches (bid int primary key, bbalance int, filler char(88))",
        "create table tellers (tid int primary key, bid int, tbalance int, filler char(84))",
        "create table accounts (aid int primary key, bid int, abalance int, filler char(84))",
        "create table history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))",
        "alter table history replica identity full",
        "insert into branches select g, 0, '' from generate_series(1, 10) g",
        "insert into tellers select g, g % 10 + 1, 0, '' from generate_series(1, 100) g",
        f"insert into accounts select g, g % 10 + 1, 0, '' from generate_series(1, {accounts}) g",
    )


class Load:
    """pgbench's transaction at a rate, and a change of the schema every half minute; counts what has committed."""

    def __init__(self, database: SourceDatabase, accounts: int, rate: float) -> None:
        self.database, self.accounts, self.rate = database, accounts, rate
        self.stopped, self.transactions, self.alters = threading.Event(), 0, 0
        self._thread = threading.Thread(target=self._run)
        self._rng = random.Random(1)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join()

    def _run(self) -> None:
        next_alter = time.monotonic() + 15
        while not self.stopped.is_set():
            try:
                with self.database.connect() as connection:
                    due = time.monotonic()
                    while not self.stopped.is_set():
                        self._transaction(connection)
                        if time.monotonic() > next_alter:
                            self._alter(connection)
                            next_alter = time.monotonic() + 30
                        due = max(due + 1 / self.rate, time.monotonic() - 1)
                        self.stopped.wait(max(0.0, due - time.monotonic()))
            except psycopg.Error:
                self.stopped.wait(0.2)  # the server is killed

    def _transaction(self, connection: psycopg.Connection[Any]) -> None:
        rng = self._rng
        aid, tid, bid, delta = (
            rng.randint(1, self.accounts),
            rng.randint(1, 100),
            rng.randint(1, 10),
            rng.randint(-5000, 5000),
        )
        with connection.transaction():
            connection.execute("update accounts set abalance = abalance + %s where aid = %s", (delta, aid))
            connection.execute("update tellers set tbalance = tbalance + %s where tid = %s", (delta, tid))
            connection.execute("update branches set bbalance = bbalance + %s where bid = %s", (delta, bid))
            connection.execute("insert into history values (%s, %s, %s, %s, now())", (tid, bid, aid, delta))
        self.transactions += 1

    def _alter(self, connection: psycopg.Connection[Any]) -> None:
        self.alters += 1
        table = ("tellers", "accounts", "history")[self.alters % 3]
        kind = ("text", "int default 7", "numeric(8, 2)")[self.alters % 3]
        connection.execute(f"alter table {table} add column extra{self.alters} {kind}")
        if self.alters > 3:
            old = self.alters - 3
            connection.execute(f"alter table {table} drop column extra{old}")


def start_child(warehouse: str, database: SourceDatabase, options: list[str], out: Path) -> subprocess.Popen[bytes]:
    more = [part for option in options for part in ("--option", option)]
    command = [sys.executable, __file__, "--child", warehouse, "--address", database.url, *more]
    return subprocess.Popen(command, stdout=out.open("ab"), stderr=subprocess.STDOUT)


def run_child(warehouse: str, address: str, options: dict[str, str]) -> None:
    """Ingests until it is killed; a line of JSON for each report."""
    started = time.monotonic()
    with connect(warehouse=warehouse) as lake:
        for done in lake.ingest(address, TABLES, "db", options=options).run():
            facts = {
                "phase": done.phase,
                "rows": done.rows,
                "lag_s": done.lag_s,
                "age_s": time.monotonic() - started,
                "at": time.time(),
            }
            sys.stdout.write(json.dumps(facts | {"peak_kb": peak_kb(), "why": done.why}) + "\n")
            sys.stdout.flush()


def peak_kb() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def copied(lake: Any, database: SourceDatabase, options: dict[str, str]) -> tuple[int, float]:
    """Rows and seconds of the copies and the changes up to the current end."""
    started, rows = time.monotonic(), 0
    for done in lake.ingest(database.url, TABLES, "db", options=options).run(once=True):
        rows += done.rows if done.phase == "stream" or done.is_last else 0
    return rows, time.monotonic() - started


def killed_for_minutes(
    args: argparse.Namespace, server: PostgresServer, database: SourceDatabase, warehouse: str, out: Path
) -> dict[str, Any]:
    """The load with kills; returns what was done."""
    rng, load = random.Random(7), Load(database, args.accounts, args.rate)
    end, pause = time.monotonic() + args.minutes * 60, args.minutes * 60 / (args.kills + 1)
    load.start()
    kills = {"process": 0, "server": 0, "restart": 0}
    child = start_child(warehouse, database, args.option, out)
    try:
        while time.monotonic() < end:
            next_s = min(end, time.monotonic() + pause * (0.5 + rng.random()))
            while child.poll() is None and time.monotonic() < next_s:
                time.sleep(0.1)
            if child.poll() is not None:  # it has started while the server did not answer: a supervisor repeats it
                kills["restart"] += 1
                child = start_child(warehouse, database, args.option, out)
            if kills["process"] + kills["server"] >= args.kills:
                continue
            if rng.random() < 0.25:
                server.kill()
                server.start()
                kills["server"] += 1
            else:
                child.send_signal(signal.SIGKILL)
                child.wait()
                kills["process"] += 1
                child = start_child(warehouse, database, args.option, out)
    finally:
        load.stop()
        child.kill()
        child.wait()
    return {"transactions": load.transactions, "alters": load.alters, "kills": kills}


def lags_of(out: Path) -> dict[str, Any]:
    reports = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    streamed = [r for r in reports if r["phase"] == "stream" and r["rows"]]
    every, steady = [r["lag_s"] for r in streamed], [r["lag_s"] for r in streamed if r["age_s"] > STEADY_S]
    figures = {
        name: {f"p{p}": round(float(np.percentile(values, p)), 2) for p in (50, 99)} | {"reports": len(values)}
        for name, values in (("every", every), ("steady", steady))
        if values
    }
    return {"lag_s": figures, "peak_mb": max(r["peak_kb"] for r in reports) // 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--accounts", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--burst", type=int, default=200_000)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--json")
    parser.add_argument("--reports", help="file that keeps the reports of the processes")
    parser.add_argument("--child")
    parser.add_argument("--address")
    args = parser.parse_args()
    options = dict(option.split("=", 1) for option in args.option or ["log-store.enabled=true"])
    if args.child:
        run_child(args.child, args.address, options)
        return
    with tempfile.TemporaryDirectory(prefix="lakelog-postgres-") as place, tempfile.TemporaryDirectory() as files:
        server = PostgresServer(place).start()
        try:
            database, out = SourceDatabase(server), Path(args.reports or Path(files) / "reports")
            warehouse = os.path.join(files, "warehouse")
            make_tables(database, args.accounts)
            with connect(warehouse=warehouse) as lake:
                rows, seconds = copied(lake, database, options)
            figures: dict[str, Any] = {"snapshot": {"rows": rows, "rows_per_s": round(rows / seconds)}}
            figures |= killed_for_minutes(args, server, database, warehouse, out) | lags_of(out)
            with connect(warehouse=warehouse) as lake:
                copied(lake, database, options)
                wrong = {table: differences(lake, database, table) for table in TABLES}
                figures["equal"] = {table: not found for table, found in wrong.items()}
                for found in wrong.values():
                    sys.stderr.write("".join(f"{line[:500]}\n" for line in found[:5]))
                with database.connect() as connection:
                    connection.execute(
                        "insert into history select 1, 1, g, g, now() from generate_series(1, %s) g", (args.burst,)
                    )
                rows, seconds = copied(lake, database, options)
                figures["stream"] = {"rows": rows, "rows_per_s": round(rows / seconds)}
                figures["slot dropped"] = lake.ingest(database.url, TABLES, "db").drop_slot() and not database.slots()
        finally:
            server.kill()
    text = json.dumps(figures, indent=1)
    print(text)  # noqa: T201
    if args.json:
        Path(args.json).write_text(text + "\n", encoding="utf-8")
    sys.exit(not all(figures["equal"].values()))


if __name__ == "__main__":
    main()
