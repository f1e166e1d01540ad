"""The processes of a chaos run: the job that writes the table, the one that copies its log, and a tail of the log.

usage: python -m chaos.jobs writer|copier|tail SETTINGS  (SETTINGS is a JSON file; a line on stdin says: come to an end)
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from chaos.net import Net
from chaos.rows import Input
from chaos.source import ChaosSource
from lakelog import Lake, connect
from lakelog.errors import Unavailable
from lakelog.spark.session.session import STREAM_SETTINGS

_LOOK_S = 0.2
_RECHECK_S = 0.1
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For processes that live for a minute."""


def write(given: dict[str, Any]) -> None:
    """Runs the streaming write on executors in processes of their own until all changes are in the table."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        **STREAM_SETTINGS,
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.driver.extraJavaOptions": _QUICK_JVM,
        "spark.executor.extraJavaOptions": _QUICK_JVM,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
        **given["cluster"],
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    lake = open_lake(given, builder.getOrCreate())
    lake.spark.dataSource.register(ChaosSource)
    source = lake.spark.readStream.format("chaos").options(**given["source"]).load()
    query = lake.write_stream(source.repartition(2, "id"), "db.t", given["checkpoint"])
    total = int(given["source"]["total"])
    while _change_of(query) < total:
        _go_on(query)
    query.processAllAvailable()
    query.stop()
    lake.table("db.t").seal()
    lake.spark.stop()


def open_lake(given: dict[str, Any], spark: Any = None, **more: Any) -> Lake:
    """The lake of the settings."""
    return connect(warehouse=given["warehouse"], spark=spark, storage_options=given["storage"], **more)


def copy(given: dict[str, Any]) -> None:
    """Follows the log by a streaming query into a second table, until it is told to end and has all there is.

    A row without a key may come twice and be taken back: the copy adds up how often it is there.
    """
    settings = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": _QUICK_JVM}
    with open_lake(given, settings=settings) as lake:
        options = {"read.mode": "log", "scan.startup.mode": "earliest"}
        frame = lake.read_stream("db.t", options)
        if given["source"]["kind"] == "append":
            from pyspark.sql.functions import lit

            frame = frame.select("id", lit(1).cast("bigint").alias("n"), "v", "name", "at", "_row_kind")
        query = lake.write_stream(frame, "db.copy", given["copy_checkpoint"])
        told = _told_to_end()
        while not told.is_set():
            _go_on(query)
        query.stop()
        rest = frame.writeStream.format("lakelog").option("checkpointLocation", given["copy_checkpoint"])
        rest.trigger(availableNow=True).start("db.copy").awaitTermination()
        lake.table("db.copy").seal()


def tail(given: dict[str, Any]) -> None:
    """Follows the log without Spark; told how many rows it must have seen, it keeps what they add up to in a file.

    After a broker that was away for too long it goes on from its position.
    """
    lake = open_lake(given)
    seen = _Seen(Input(**given["input"]).kind)
    threading.Thread(target=_follow, args=(lake, seen), daemon=True).start()
    wanted = int(sys.stdin.readline())
    with seen.changed:
        seen.changed.wait_for(lambda: seen.net.rows >= wanted, timeout=given["patience_s"])
        seen.net.table().write_ipc(given["tailed"])
    _say({"rows": seen.net.rows, "wanted": wanted, "begun": seen.begun})


class _Seen:
    """What the tail has seen, and how often it began."""

    def __init__(self, kind: str) -> None:
        self.changed = threading.Condition()
        self.net = Net(kind)
        self.begun = 0


def _follow(lake: Lake, seen: _Seen) -> None:
    position = "earliest"
    while True:
        with contextlib.suppress(Unavailable):
            tail = lake.table("db.t").tail(position)
            with seen.changed:
                seen.begun += 1
            try:
                for batch in tail:
                    with seen.changed:
                        seen.net.add(batch)
                        seen.changed.notify_all()
            finally:
                position = tail.position
        time.sleep(_RECHECK_S)


def _change_of(query: Any) -> int:
    progress = query.lastProgress
    end = None if progress is None else progress.sources[0].endOffset
    return int(json.loads(end)["change"]) if end else 0


def _go_on(query: Any) -> None:
    """Waits a little; raises what the query failed with."""
    if query.awaitTermination(_LOOK_S):
        raise query.exception() or SystemExit("the query was stopped")


def _told_to_end() -> threading.Event:
    told = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        told.set()

    threading.Thread(target=wait, daemon=True).start()
    return told


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


ROLES = {"writer": write, "copier": copy, "tail": tail}


if __name__ == "__main__":
    ROLES[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    _say({"done": True})
