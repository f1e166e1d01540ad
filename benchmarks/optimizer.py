"""Two optimizers beside a writer that streams into many tables, one of them killed each minute: do tables stay small
and fresh, do the optimizers get in each other's way, is a row lost?

usage: optimizer.py [--minutes 10] [--tables 10] [--kill-every 60] [--rows 20] [--json FILE]

The writer keeps one writer a table open, appends rows twice a second and commits every two seconds; the tables leave
all maintenance to the optimizers. With each kill a batch write dies, too, and leaves rows in the log of a table. Ends
with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog import Lake, Table, connect
from lakelog.table.maintenance.run_history import Runs

RUNS_TARGET = 8
"""Sorted runs of a bucket at most: at 8 a streaming writer would wait."""
BEHIND_TARGET_S = 10.0
"""Or what lay between two commits of the writer and a look, on a machine that is busy with other things."""
SNAPSHOTS_TARGET = 80
"""20 that the tables keep, 50 that one expiry takes, and what is written between two looks."""
WRITE_EVERY_S, COMMIT_EVERY_S, IDENTITY_CHECK_S = 0.5, 2.0, 5.0
KEYS = 5_000
OPTIONS = (
    "'bucket' = '2', 'write-only' = 'true', 'log-store.enabled' = 'true', 'commit.interval' = '2 s', "
    "'log-store.data-format' = 'debezium-json', "
    "'snapshot.num-retained.min' = '5', 'snapshot.num-retained.max' = '20'"
)
_DYING = """
import os, signal, sys, lakelog, pyarrow as pa
writer = lakelog.connect(warehouse=sys.argv[1]).table(sys.argv[2]).writer()
writer.write(pa.table({"id": pa.array([-1, 1, 2], pa.int64()), "v": pa.array([-1] * 3, pa.int64())}))
writer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@dataclass
class Writing:
    """What the writer has committed: table → id → value; runs in a thread until it is stopped."""

    tables: dict[str, Table]
    rows: int
    wanted: dict[str, dict[int, int]] = field(default_factory=dict)
    commits: int = 0
    longest_s: float = 0.0
    """What lay between two commits at most."""
    failure: BaseException | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins."""
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def stop(self) -> None:
        """Commits what is open and ends. Raises what the writer failed with."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as why:
            self.failure = why

    def _write(self) -> None:
        chance, value = np.random.default_rng(7), 0
        writers = {name: table.writer() for name, table in self.tables.items()}
        self.wanted = {name: {} for name in writers}
        last = time.monotonic()
        due = last + COMMIT_EVERY_S
        while not self._stopped.is_set():
            began = time.monotonic()
            for name, writer in writers.items():
                ids = chance.choice(KEYS, self.rows, replace=False)
                values = np.arange(value, value + self.rows)
                value += self.rows
                writer.write(pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.int64())}))
                writer.flush()
                self.wanted[name].update(zip(ids.tolist(), values.tolist(), strict=True))
            if time.monotonic() >= due:
                due = time.monotonic() + COMMIT_EVERY_S
                for writer in writers.values():
                    writer.commit()
                    self.commits += 1
                self.longest_s, last = max(self.longest_s, time.monotonic() - last), time.monotonic()
            self._stopped.wait(max(0.0, began + WRITE_EVERY_S - time.monotonic()))
        for writer in writers.values():
            writer.commit()
            writer.close()


@dataclass
class Daemons:
    """The optimizers' processes and what they have printed."""

    warehouse: str
    directory: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    killed: int = 0
    outputs: list[Path] = field(default_factory=list)

    def start(self) -> None:
        """One more."""
        output = self.directory / f"optimizer-{len(self.outputs)}.jsonl"
        self.outputs.append(output)
        command = [sys.executable, "-m", "lakelog", "optimize", "--interval", "2 s", "--format", "jsonl"]
        with output.open("wb") as out, output.with_suffix(".err").open("wb") as err:
            self.running.append(subprocess.Popen([*command, "--warehouse", self.warehouse], stdout=out, stderr=err))

    def kill_one(self) -> None:
        """Kills the older one and starts another."""
        victim = self.running.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        self.killed += 1
        self.start()

    def stop(self) -> list[int]:
        """Ends all; their exit codes."""
        for one in self.running:
            one.send_signal(signal.SIGTERM)
        return [one.wait(timeout=120) for one in self.running]

    def runs(self) -> list[dict[str, Any]]:
        """The runs that they have told of."""
        return [json.loads(line) for path in self.outputs for line in path.read_text().splitlines() if line[-1:] == "}"]

    def errors(self) -> list[str]:
        """What they complained of."""
        texts = [path.with_suffix(".err").read_text() for path in self.outputs]
        return [line for text in texts for line in text.splitlines() if not line.startswith("looking after")]


def look(tables: dict[str, Table]) -> dict[str, float]:
    """The worst of all tables now."""
    worst: collections.Counter[str] = collections.Counter()
    for table in tables.values():
        stats = table.health().figures
        log = stats.log
        assert log is not None
        behind = 0.0 if log.waiting_ms is None else max(0.0, (stats.looked_ms - log.waiting_ms) / 1000)
        found = {"runs": stats.most_runs, "files": stats.files, "snapshots": stats.snapshots.kept}
        for name, value in {**found, "behind_s": behind, "dead": sum(w.is_gone for w in log.writers)}.items():
            worst[name] = max(worst[name], value)
    return dict(worst)


def rows_lost(table: Table, wanted: dict[int, int]) -> dict[str, int]:
    """How many rows each store lacks or has too much."""
    files = dict(zip(*(table.scan().to_arrow().column(name).to_pylist() for name in ("id", "v")), strict=True))
    log: dict[int, int] = {}
    for part in table.log_records():
        for text in part.column("value").to_pylist():
            if text is not None:
                change = json.loads(text)
                if change["op"] == "d":
                    log.pop(change["before"]["id"], None)
                else:
                    log[change["after"]["id"]] = change["after"]["v"]
    return {name: len(wanted.items() ^ found.items()) for name, found in (("files", files), ("log", log))}


def measure(lake: Lake, warehouse: str, directory: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Runs it all; the measurements."""
    tables = {}
    for number in range(given.tables):
        lake.sql(f"create table db.t{number} (id bigint, v bigint, primary key (id)) tblproperties ({OPTIONS})")
        tables[f"db.t{number}"] = lake.table(f"db.t{number}")
    writing, daemons = Writing(tables, given.rows), Daemons(warehouse, directory)
    samples: list[dict[str, float]] = []
    for _ in range(2):
        daemons.start()
    writing.start()
    began = killed = time.monotonic()
    try:
        while (now := time.monotonic()) < began + given.minutes * 60:
            if now >= killed + given.kill_every:
                killed = now
                daemons.kill_one()
                dying = [sys.executable, "-c", _DYING, warehouse, f"db.t{daemons.killed % given.tables}"]
                subprocess.run(dying, check=False)
            samples.append({"at": round(now - began), **look(tables)})
            print(json.dumps(samples[-1]), file=sys.stderr, flush=True)
            time.sleep(IDENTITY_CHECK_S)
        writing.stop()
        end = time.monotonic() + 60
        while any(table.health().needs for table in tables.values()) and time.monotonic() < end:
            time.sleep(1)
    finally:
        with contextlib.suppress(BaseException):
            writing.stop()
        codes = daemons.stop()
    return measurements_of(tables, writing, daemons, samples, codes)


def measurements_of(
    tables: dict[str, Table], writing: Writing, daemons: Daemons, samples: list[dict[str, float]], codes: list[int]
) -> dict[str, Any]:
    """What is printed."""
    runs = daemons.runs()
    lost = [rows_lost(table, writing.wanted[name]) for name, table in tables.items()]
    recorded = [run for table in tables.values() for run in Runs(table.logical.io, table.path).list()]
    kinds = collections.Counter((run["kind"], run["outcome"]) for run in runs)
    steady = [sample for sample in samples if sample["at"] >= 15]
    worst = {
        name: max(sample[name] for sample in steady) for name in ("runs", "files", "snapshots", "behind_s", "dead")
    }
    out = {
        "worst": worst,
        "median": {name: float(np.median([sample[name] for sample in steady])) for name in worst},
        "commits": writing.commits,
        "longest_between_commits_s": round(writing.longest_s, 1),
        "killed": daemons.killed,
        "exit_codes": codes,
        "runs": {f"{kind} {outcome}": count for (kind, outcome), count in sorted(kinds.items())},
        "died": sum(run.outcome == "died" for run in recorded),
        "buckets_lost_to_another_commit": sum("changed by another" in run["detail"] for run in runs),
        "complaints": daemons.errors()[:10],
        "needs_left": [need.kind for table in tables.values() for need in table.health().needs],
        "rows_wrong": {store: sum(one[store] for one in lost) for store in ("files", "log")},
    }
    useless = sum(run["outcome"] in ("waits", "nothing to do") for run in runs)
    behind = max(BEHIND_TARGET_S, 2 * writing.longest_s)
    out["targets"] = {
        f"sorted runs of a bucket <= {RUNS_TARGET}": worst["runs"] <= RUNS_TARGET,
        f"files behind the log <= {behind:.0f} s": worst["behind_s"] <= behind,
        f"snapshots <= {SNAPSHOTS_TARGET}": worst["snapshots"] <= SNAPSHOTS_TARGET,
        "no conflict loop: at most a quarter of the runs in vain": useless * 4 <= len(runs),
        "nothing failed": not any(run["outcome"] == "failed" for run in runs),
        "no need is left": not out["needs_left"],
        "nothing lost": not any(out["rows_wrong"].values()),
        "stopped with 0": not any(codes),
    }
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--kill-every", type=float, default=60)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="lakelog-optimizer-"))
    try:
        warehouse = str(directory / "warehouse")
        with connect(warehouse=warehouse) as lake:
            found = measure(lake, warehouse, directory, given)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = json.dumps(found, indent=2)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")
    return 0 if all(found["targets"].values()) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(sys.path[1:]))
    sys.exit(main())
