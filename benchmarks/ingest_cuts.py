"""Transfers between accounts of four tables of PostgreSQL, while the process that ingests and the server are killed.

usage: PYTHONPATH=tests python benchmarks/ingest_cuts.py [--minutes 3] [--kills 5] [--rate 50] [--json FILE]

Three readers find the sum of all accounts again and again at the newest cut: of files, of both stores, and by one
statement of Spark. One more reads without a cut, which shows how often that is wrong. It prints the number of reads and
of wrong sums, and the age of the cuts.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from lakelog import Lake, connect
from servers.postgres_server import PostgresServer
from source_database import SourceDatabase
from transfers import ACCOUNTS, TOTAL, Transfers, make_accounts, plain_sum, sum_of_files, sum_of_sql, sum_of_union

READS: dict[str, Callable[[Lake], int]] = {
    "files": sum_of_files,
    "union": sum_of_union,
    "sql": sum_of_sql,
    "without a cut": plain_sum,
}
TABLES = [f"db.{name}" for name in ACCOUNTS]


class Load(threading.Thread):
    """Transfers at a rate until it is stopped; a killed server is waited for."""

    def __init__(self, database: SourceDatabase, rate: float) -> None:
        super().__init__()
        self.stopped, self.transfers = threading.Event(), Transfers(1)
        self._database, self._pause_s = database, 1 / rate

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                with self._database.connect() as connection:
                    while not self.stopped.wait(self._pause_s):
                        self.transfers.transaction(connection)
            except psycopg.Error:
                self.stopped.wait(0.2)


class Reads(threading.Thread):
    """Reads the sum in one way until it is stopped; counts the reads, the wrong sums and the errors."""

    def __init__(self, lake: Lake, name: str) -> None:
        super().__init__()
        self.stopped, self.name = threading.Event(), name
        self.reads, self.wrong, self.errors = 0, 0, list[str]()
        self.ages, self.cuts = list[float](), set[str]()
        self._lake, self._first = lake, lake.cut(TABLES).name

    def run(self) -> None:
        while not self.stopped.wait(0.05):
            try:
                self.wrong += READS[self.name](self._lake) != TOTAL
                self.reads += 1
                cut = self._lake.cut(TABLES)
            except Exception as why:
                self.errors.append(repr(why)[:300])
                continue
            self.cuts.add(cut.name)
            if cut.name != self._first:  # that one is as old as the start of Spark
                self.ages.append(time.time() - cut.time.timestamp())


def start_child(warehouse: str, database: SourceDatabase, options: list[str], out: Path) -> subprocess.Popen[bytes]:
    more = [part for option in options for part in ("--option", option)]
    command = [sys.executable, __file__, "--child", warehouse, "--address", database.url, *more]
    return subprocess.Popen(command, stdout=out.open("ab"), stderr=subprocess.STDOUT)


def ingested(warehouse: str, address: str, options: dict[str, str], once: bool) -> None:
    with connect(warehouse=warehouse) as lake:
        for _ in lake.ingest(address, ACCOUNTS, "db", options=options).run(once=once):
            pass


def killed(
    args: argparse.Namespace, server: PostgresServer, database: SourceDatabase, warehouse: str, out: Path
) -> dict[str, int]:
    """The process and the server are killed at random times; returns how often."""
    rng, kills = random.Random(args.seed), {"process": 0, "server": 0, "restart": 0}
    end, pause = time.monotonic() + args.minutes * 60, args.minutes * 60 / (args.kills + 1)
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
        child.kill()
        child.wait()
    return kills


def figures_of(one: Reads) -> dict[str, Any]:
    found: dict[str, Any] = {"reads": one.reads, "wrong": one.wrong, "errors": one.errors[:3], "cuts": len(one.cuts)}
    ages = {f"age_s p{p}": round(float(np.percentile(one.ages, p)), 2) for p in (50, 99)} if one.ages else {}
    return found | ages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--json")
    parser.add_argument("--child")
    parser.add_argument("--address")
    args = parser.parse_args()
    options = dict(option.split("=", 1) for option in args.option or ["log-store.enabled=true"])
    if args.child:
        ingested(args.child, args.address, options, once=False)
        return
    with tempfile.TemporaryDirectory(prefix="lakelog-postgres-") as place, tempfile.TemporaryDirectory() as files:
        server, warehouse = PostgresServer(place).start(), os.path.join(files, "warehouse")
        try:
            database, out = SourceDatabase(server), Path(files) / "out"
            make_accounts(database)
            ingested(warehouse, database.url, options, once=True)
            with connect(warehouse=warehouse) as lake:
                sum_of_sql(lake)  # starts Spark
                load, readers = Load(database, args.rate), [Reads(lake, name) for name in READS]
                for thread in (load, *readers):
                    thread.start()
                try:
                    kills = killed(args, server, database, warehouse, out)
                finally:
                    for one in readers:
                        one.stopped.set()
                        one.join()
                    load.stopped.set()
                    load.join()
                ingested(warehouse, database.url, options, once=True)
                figures = {"transactions": load.transfers.done, "kills": kills}
                figures |= {one.name: figures_of(one) for one in readers}
                figures["at the end"] = {name: read(lake) == TOTAL for name, read in READS.items()}
        finally:
            server.kill()
    text = json.dumps(figures, indent=1)
    print(text)  # noqa: T201
    if args.json:
        Path(args.json).write_text(text + "\n", encoding="utf-8")
    asked = [one for one in readers if one.name != "without a cut"]
    sys.exit(any(one.wrong or one.errors for one in asked) or not all(figures["at the end"].values()))


if __name__ == "__main__":
    main()
