"""The way of a row through a pipe: a writer, a process with a Python function, and a tail of the target.

``python benchmarks/pipe.py [--rows 300] [--pause-ms 20] [--results docs/results]``: milliseconds from ``write`` to the
tail of the target, whose table has a key and an embedded log, as the source has.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelog

_PIPE = """
import sys, lakelog
lake = lakelog.connect(sys.argv[1])
progress = lake.table("db.a").pipe(lambda rows: rows, lake.table("db.b"), start="earliest")
print("ready", flush=True)
for _ in progress: pass
"""


def measure(rows: int, pause_ms: float) -> dict[str, Any]:
    """Milliseconds of each row, sorted."""
    with tempfile.TemporaryDirectory() as place, lakelog.connect(place) as lake:
        lake.sql("create database db")
        for name in ("a", "b"):
            lake.sql(
                f"create table db.{name} (id bigint, sent bigint, primary key (id)) tblproperties "
                "('bucket' = '1', 'log-store.enabled' = 'true', 'log-store.type' = 'embedded')"
            )
        ways: list[float] = []

        def receive() -> None:
            for batch in lake.table("db.b").tail("earliest"):
                now = time.time_ns()
                ways.extend((now - sent) / 1e6 for sent in batch["sent"].to_pylist())
                if len(ways) >= rows:
                    return

        follower = threading.Thread(target=receive)
        follower.start()
        with subprocess.Popen([sys.executable, "-c", _PIPE, place], stdout=subprocess.PIPE) as pipe:
            assert pipe.stdout is not None
            pipe.stdout.readline()
            with lake.table("db.a").writer() as writer:
                for number in range(rows):
                    writer.write(pa.table({"id": [number], "sent": [time.time_ns()]}))
                    writer.commit()
                    time.sleep(pause_ms / 1000)
                follower.join()
            pipe.kill()
        ways.sort()
        return {
            "rows": rows,
            "p50_ms": round(ways[len(ways) // 2], 1),
            "p90_ms": round(ways[len(ways) * 9 // 10], 1),
            "p99_ms": round(ways[len(ways) * 99 // 100], 1),
        }


def main() -> None:
    """Prints the figures, and writes them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--pause-ms", type=float, default=20)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    figures = measure(given.rows, given.pause_ms)
    text = json.dumps(figures, indent=1)
    if given.results:
        (given.results / "pipe.json").write_text(f"{text}\n", encoding="utf-8")
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
