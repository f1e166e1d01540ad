"""A streaming query of Spark among many writers, and what its checkpoint says of what it wrote.

usage: python -m chaos.crowd_spark NAME SETTINGS  (a line on stdin says: come to an end)
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.crowd_source import CrowdSource, changes
from chaos.journal import Journal
from lakelog import connect
from register_history import OK, Write

_LOOK_S = 0.1
_SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "1000000",  # the checkpoint is the journal
}


def main() -> None:
    """Runs the query until it is told to end, or fails."""
    name, given = sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    with connect(warehouse=given["warehouse"], settings=_SETTINGS) as lake:
        lake.spark.dataSource.register(CrowdSource)
        keys = given["keys"] if lake.table("db.t").primary_keys else 0
        source = lake.spark.readStream.format("crowd").option("keys", str(keys)).load()
        checkpoint = str(Path(given["directory"]) / "streams" / name)
        query = lake.write_stream(source.repartition(2, "id"), "db.t", checkpoint)
        while query.lastProgress is None and not query.awaitTermination(_LOOK_S):
            pass
        Journal(Path(given["directory"]) / "journals", name)
        while not told.is_set():
            if query.awaitTermination(_LOOK_S):
                raise query.exception() or SystemExit("the query was stopped")
        query.stop()


def query_id(checkpoint: Path) -> str:
    """The writer's name of the query."""
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])


def written(checkpoint: Path, keys: int) -> Iterator[Write]:
    """The micro-batches of the query as writes: begun when their offsets were noted, acknowledged by the checkpoint.

    The times of both files, which are written before and behind the work, are moved to the monotonic clock.
    """
    moved, first = time.monotonic_ns() - time.time_ns(), 0
    for planned in sorted(
        (p for p in (checkpoint / "offsets").glob("*") if p.name.isdigit()), key=lambda p: int(p.name)
    ):
        end = int(json.loads(planned.read_text(encoding="utf-8").splitlines()[-1])["change"])
        after = {key: value if kind == "+I" else None for kind, key, value in changes(first, end, keys)}
        write = Write(f"spark/{planned.name}", planned.stat().st_mtime_ns + moved, [after])
        done = checkpoint / "commits" / planned.name
        if done.exists():
            write.outcome, write.responded = OK, done.stat().st_mtime_ns + moved
        if after:
            yield write
        first = end


if __name__ == "__main__":
    main()
