"""The process that the tests of ``lakelog ingest`` kill: prints a line at each point where a death could harm.

usage: ingest_job.py WAREHOUSE ADDRESS TABLES [KEY=VALUE …]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from lakelog import connect
from lakelog.filestore.gc.consumers import Consumers
from lakelog.service.ingest.replication import ReplicationStream
from lakelog.service.ingest.source import Source
from lakelog.service.ingest.target import Target
from lakelog.table.cuts.records import CutRecords
from lakelog.table.write.positioned_writer import PositionedWriter

POINTS: tuple[tuple[type, str], ...] = (
    (PositionedWriter, "write"),
    (PositionedWriter, "commit"),
    (ReplicationStream, "confirm"),
    (Source, "create_slot"),
    (Source, "publish"),
    (Target, "sealed"),
    (CutRecords, "create"),
    (Consumers, "record"),
    (Target, "mark"),
    (Target, "copy"),
    (Target, "_follow_columns"),
    (Target, "_delete_all"),
)


def announced(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, announced before and after it runs."""

    def run(*arguments: Any, **more: Any) -> Any:
        _say(f"before {name}")
        try:
            return method(*arguments, **more)
        finally:
            _say(f"after {name}")

    return run


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    warehouse, address, tables, *options = sys.argv[1:]
    for owner, name in POINTS:
        setattr(owner, name, announced(name, getattr(owner, name)))
    pairs = dict(option.split("=", 1) for option in options)
    with connect(warehouse=warehouse) as lake:
        made = lake.ingest(address, tables.split(","), "db", interval_s=0.05, options=pairs)
        for progress in made.run():
            if progress.phase == "wait":
                sys.stderr.write(f"{progress.why}\n")


if __name__ == "__main__":
    main()
