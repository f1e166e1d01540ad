"""Both versions write one table at once, and are killed: nothing that was acknowledged is lost, nothing is there twice.

``python -m versions.together --minutes 10`` (in ``tests``) prints one line of JSON for each kind of table that both
versions write; the exit code is 1 if a row is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from versions.kinds import KINDS
from versions.old_version import Refused, Version, old_python

TOGETHER = ("key", "key, deletion vectors", "no key")
"""The kinds that both versions write: the others 0.1.0 refuses once this version has written them."""


@dataclass
class Writer:
    """A version that writes rows of its own, one a write, until it is killed; then it starts again."""

    python: str
    number: int
    warehouse: str
    rng: random.Random
    attempted: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    kills: int = 0

    def run(self, until: float) -> None:
        """Writes until a time of the monotonic clock."""
        following = 0
        while time.monotonic() < until or not self.acknowledged:
            version = Version.start(self.python)
            version.warehouse = self.warehouse
            killer = threading.Timer(self.rng.uniform(0.5, 4.0), version.process.kill)
            killer.start()
            try:
                while time.monotonic() < until or not self.acknowledged:
                    row = self.number * 1_000_000 + following
                    following += 1
                    self.attempted.add(row)
                    version("write", [{"id": row, "v": str(row)}])
                    self.acknowledged.add(row)
                    if following % 15 == 0:
                        version("compact")
            except (ValueError, BrokenPipeError):  # killed: no answer, or half of one
                self.kills += 1
            except Refused as why:
                if why.name not in ("CommitConflict", "Unavailable", "CommitUnknown"):
                    raise
            finally:
                killer.cancel()
                version.close()


def run(kind: str, minutes: float, seed: int) -> dict[str, Any]:
    """One kind of table; what was counted. Raises AssertionError."""
    place = Path(tempfile.mkdtemp())
    old, new = Version.start(old_python()), Version.start(sys.executable)
    old.warehouse = new.warehouse = str(place / "w")
    try:
        new("create", *KINDS[kind])
        writers = [
            Writer(python, number, str(place / "w"), random.Random(seed + number))
            for number, python in enumerate((old_python(), sys.executable), 1)
        ]
        until = time.monotonic() + minutes * 60
        failures: list[BaseException] = []

        def guarded(writer: Writer) -> None:
            try:
                writer.run(until)
            except BaseException as why:
                failures.append(why)

        threads = [threading.Thread(target=guarded, args=(writer,)) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        found = [row[0] for row in new("read")]
        assert old("read") == new("read")
        attempted = set().union(*(writer.attempted for writer in writers))
        acknowledged = set().union(*(writer.acknowledged for writer in writers))
        assert len(found) == len(set(found)), "rows are there twice"
        assert acknowledged <= set(found) <= attempted, "rows are lost, or nobody wrote them"
        kills = sum(writer.kills for writer in writers)
        return {"kind": kind, "kills": kills, "acknowledged": len(acknowledged), "rows": len(found), "minutes": minutes}
    finally:
        old.close()
        new.close()
        shutil.rmtree(place, ignore_errors=True)


def main() -> int:
    """Runs each kind for its share of the time."""
    parser = argparse.ArgumentParser(prog="versions.together", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for kind in TOGETHER:
        sys.stdout.write(json.dumps(run(kind, given.minutes / len(TOGETHER), given.seed)) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
