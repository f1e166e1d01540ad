"""Runs workload W in one system and prints a JSON line per measured step; started by ``workload.py`` in the system's
own Python.

usage: workload_side.py SYSTEM INPUT PLACE [--jars A,B] [--repeat 3] [--after-each-batch]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STARTED = time.monotonic()
sys.path.insert(0, str(Path(__file__).parent))

from process_tree import cpu_seconds  # noqa: E402
from systems.base import System  # noqa: E402


class Run:
    """One system over one input."""

    def __init__(self, name: str, source: Path, place: Path, jars: list[str], repeat: int) -> None:
        self.truth = json.loads((source / "truth.json").read_text(encoding="utf-8"))
        self.source, self.place, self.repeat = source, place, repeat
        self.system: System = importlib.import_module(f"systems.{name}").SYSTEM(place, jars)

    def run(self) -> None:
        """All steps, in order."""
        self.step("start", self.system.start, began=_STARTED)
        self.step("base_load", lambda: self.system.base_load(str(self.source / "base")))
        self.disk("disk_base")
        self.reading("scan_base", self.system.scan_agg, lambda found: self.check(found, "base"))
        for file in sorted(self.source.glob("batch-*.parquet")):
            self.step("upsert", lambda file=file: self.system.upsert(str(file)))
        self.disk("disk_after_upserts")
        self.read_all("")
        if hasattr(self.system, "compact"):
            self.step("compact", self.system.compact)
            self.disk("disk_after_compact")
            self.read_all("_compacted")
        self.system.stop()

    def run_batches(self) -> None:
        """The base and the batches, with two scans after each of them: ``scan_agg@2`` is that of base and two runs."""
        self.step("start", self.system.start, began=_STARTED)
        self.step("base_load", lambda: self.system.base_load(str(self.source / "base")))
        for number, file in enumerate([None, *sorted(self.source.glob("batch-*.parquet"))]):
            if file is not None:
                self.step("upsert", lambda file=file: self.system.upsert(str(file)))
            self.reading(f"scan_agg@{number}", self.system.scan_agg)
            self.reading(f"scan_pruned@{number}", self.system.scan_pruned)
        self.system.stop()

    def read_all(self, suffix: str) -> None:
        """The reading steps."""
        low, high = self.truth["range"]
        expected = self.system.truth
        self.reading(f"scan_agg{suffix}", self.system.scan_agg, lambda found: self.check(found, expected))
        self.reading(f"scan_pruned{suffix}", self.system.scan_pruned, lambda found: self.same(found, expected))
        for point in self.truth["points"]:
            self.step(f"point{suffix}", lambda point=point: self.system.point(point["id"]), self.is_there)
        self.reading(f"range{suffix}", lambda: self.system.range(low, high), self.check_range)
        self.reading(f"plan{suffix}", self.system.plan)

    def reading(self, name: str, work: Callable[[], Any], check: Callable[[Any], None] | None = None) -> None:
        """A step that is done several times."""
        for _ in range(self.repeat):
            self.step(name, work, check)

    def step(
        self,
        name: str,
        work: Callable[[], Any],
        check: Callable[[Any], None] | None = None,
        began: float | None = None,
    ) -> None:
        """Does and measures one thing, then checks its answer."""
        cpu = 0.0 if began is not None else cpu_seconds(os.getpid())
        begin = began if began is not None else time.monotonic()
        found = work()
        end = time.monotonic()
        self.say(step=name, wall=end - begin, cpu=cpu_seconds(os.getpid()) - cpu, begin=begin, end=end)
        if check is not None:
            check(found)

    def check(self, found: dict[str, Any], which: str) -> None:
        """Compares the sums of all columns with the truth."""
        expected = self.truth[which]
        wrong = {k: (found[k], v) for k, v in expected.items() if found[k] != v}
        self.say(check=which, wrong=repr(wrong) if wrong else None)

    def check_range(self, found: dict[str, Any]) -> None:
        """Compares the sums of a range of keys; only the live rows of one are known."""
        if self.system.truth == "live":
            self.check(found, "in_range")

    def same(self, found: float, which: str) -> None:
        """Compares the sum of amounts."""
        expected = self.truth[which]["amounts"]
        self.say(check=which, wrong=None if found == expected else f"amounts: {found}, not {expected}")

    def is_there(self, found: dict[str, Any] | None) -> None:
        """A key that was asked for is a live one (plain files may show an older row of it)."""
        ids = [p["id"] for p in self.truth["points"]]
        amounts = {p["id"]: p["amount"] for p in self.truth["points"]}
        good = found is not None and found["id"] in ids
        if good and self.system.truth != "appended":
            good = found["amount"] == amounts[found["id"]]
        self.say(check="point", wrong=None if good else repr(found))

    def disk(self, name: str) -> None:
        """Bytes and files of the table."""
        files = [p for p in self.place.rglob("*") if p.is_file() and "local" not in p.relative_to(self.place).parts[:1]]
        data = [p for p in files if p.suffix in (".parquet", ".orc", ".avro") and not _is_metadata(p)]
        self.say(disk=name, mb=sum(p.stat().st_size for p in files) / 1e6, data_files=len(data), files=len(files))

    def say(self, **what: Any) -> None:
        """One line for the process that measures."""
        print(json.dumps(what, default=str), flush=True)


def _is_metadata(path: Path) -> bool:
    return bool({"manifest", "metadata", "_delta_log", ".hoodie", "statistics", "index"} & set(path.parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system")
    parser.add_argument("input", type=Path)
    parser.add_argument("place", type=Path)
    parser.add_argument("--jars", default="")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--after-each-batch", action="store_true")
    given = parser.parse_args()
    run = Run(given.system, given.input, given.place, [j for j in given.jars.split(",") if j], given.repeat)
    if given.after_each_batch:
        run.run_batches()
    else:
        run.run()


if __name__ == "__main__":
    main()
