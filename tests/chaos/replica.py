"""A replica under load: kills of the process that copies, a storage that is away, the loss of the source, a promotion.

``python -m chaos.replica --rows 1000 --minutes 3 --kills 20`` (in ``tests``) prints one line of JSON: the lag of the
replica between the kills (what a loss of the source at that moment would lose, RPO), the seconds from the loss to the
first committed write (RTO), and the rows that were compared. The exit code is 1 if a row is wrong.
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
import time
from pathlib import Path

import pyarrow as pa

import lakelog

WRITER = """
import sys, time, pyarrow as pa, lakelog
place, rate = sys.argv[1], int(sys.argv[2])
table, number, begun = lakelog.connect(warehouse=place).table("db.t"), 0, time.monotonic()
while True:
    ids = list(range(number, number + rate))
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([i % 50_000 for i in ids], pa.int64()), "n": pa.array(ids, pa.int64())}))
    number += len(ids)
    time.sleep(max(0.0, begun + number / rate - time.monotonic()))
"""
COPIER = """
import sys, lakelog
for step in lakelog.connect(warehouse=sys.argv[1]).replicate("db.t", sys.argv[2]):
    print(step.snapshot, step.lag_s, step.error, flush=True)
"""


def start(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process in a group of its own."""
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL, start_new_session=True)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def rows(lake: lakelog.Lake, snapshot: int | None = None) -> list[tuple[int, int]]:
    """The rows of the table or of a snapshot, sorted."""
    found = lake.table("db.t").scan(snapshot_id=snapshot).to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


def newest_row(lake: lakelog.Lake) -> int:
    """The number of the newest row."""
    found = lake.table("db.t").scan(["n"]).to_arrow()["n"]
    return max(found.to_pylist(), default=-1)


def main() -> int:
    """The scenario; returns the exit code."""
    parser = argparse.ArgumentParser(prog="chaos.replica", description=__doc__)
    for name, value in (("rows", 1000), ("kills", 20), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--minutes", type=float, default=3)
    given = parser.parse_args()
    rng, place = random.Random(given.seed), Path(tempfile.mkdtemp())
    first, second = str(place / "first"), str(place / "second")
    lake = lakelog.connect(first)
    lake.create_table(
        "db.t", {"id": "bigint", "n": "bigint"}, primary_key="id",
        options={"bucket": "1", "log-store.enabled": "true", "log-store.type": "files"},
    )  # fmt: skip
    writer = start(WRITER, first, str(given.rows))
    while lake.table("db.t").latest_snapshot() is None:
        time.sleep(0.2)
    list(lake.replicate("db.t", second, stop="latest"))
    replica, copier = lakelog.connect(second), start(COPIER, first, second)
    lags, lost, between = [], [], given.minutes * 60 / given.kills
    for number in range(given.kills):
        end = time.monotonic() + between * rng.uniform(0.7, 1.3)
        time.sleep(min(8.0, between / 2))  # a process that was killed starts and catches up
        while time.monotonic() < end:
            source, copy = newest_row(lake), newest_row(replica)
            lost.append(max(0, source - copy) / given.rows)
            health = replica.health("db.t", with_log=False).figures
            if health is not None and health.replica is not None:
                lags.append(health.replica.lag_ms(int(time.time() * 1000)) / 1000)
            time.sleep(0.5)
        kill(copier)
        if number == given.kills // 2:  # the storage of the replica is away for a while
            os.rename(second, f"{second}.away")
            Path(second).write_text("no directory")
            copier = start(COPIER, first, second)
            time.sleep(10)
            kill(copier)
            os.remove(second)
            os.rename(f"{second}.away", second)
        copier = start(COPIER, first, second)
    time.sleep(8)
    before = newest_row(lake)
    kill(writer)
    kill(copier)
    lost_at = time.monotonic()
    copied = newest_row(replica)
    replica.promote("db.t")
    replica.write(pa.table({"id": pa.array([-1], pa.int64()), "n": pa.array([0], pa.int64())}), "db.t")
    rto_s = time.monotonic() - lost_at
    promoted = rows(replica)
    promoted.remove((-1, 0))
    expected = sorted({i % 50_000: i for i in range(copied + 1)}.items())
    done = {
        "rows_per_s": given.rows, "kills": given.kills, "rows": before + 1, "compared": len(promoted),
        "lost_at_promotion_s": round((before - copied) / given.rows, 2), "rto_s": round(rto_s, 2),
        "rpo_s": {"p50": _share(lost, 0.5), "p95": _share(lost, 0.95), "max": _share(lost, 1.0)},
        "lag_s": {"p50": _share(lags, 0.5), "p95": _share(lags, 0.95), "max": _share(lags, 1.0)},
        "equal": promoted == expected,
    }  # fmt: skip
    print(json.dumps(done))
    return 0 if done["equal"] else 1


def _share(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) if ordered else -1.0


if __name__ == "__main__":
    raise SystemExit(main())
