"""What clients of a chaos run have asked and were answered: a file of JSON lines for each process, outside the table.

A line is (what, when, write or read, more); times are nanoseconds of the machine's monotonic clock, one for all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from register_history import FAILED, OK, UNKNOWN, Value

START = "CHAOS_START"
"""The variable with the number of the start of a job: no two of its processes have one, on whatever host they run."""
BEGIN, DECIDE, TAIL, SCAN, UNION, FOLDED = "begin", "decide", "tail", "scan", "union", "folded"
Line = tuple[str, int, str, Any]


class Journal:
    """The journal of this process; what it says is on the disk when the call returns."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = f"{name}.{os.environ[START]}"
        self._file = (directory / f"{self.name}.jsonl").open("ab", buffering=0)

    def say(self, what: str, who: str, more: Any = None, at: int | None = None) -> None:
        """Writes a line: now, or with the time ``at`` when something began."""
        line = (what, time.monotonic_ns() if at is None else at, who, more)
        self._file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self._file.fileno())

    def begin(self, who: str, rows: Mapping[int, Value]) -> None:
        """A write of these keys begins."""
        self.say(BEGIN, who, sorted(rows.items()))

    def read(self, what: str, began: int, rows: Mapping[int, int]) -> None:
        """A read that began then has found these values by key."""
        self.say(what, self.name, [time.monotonic_ns(), sorted(rows.items())], began)


def lines(directory: Path) -> Iterator[tuple[str, Line]]:
    """(journal, line) of all journals; a line that was cut off is left out."""
    for path in sorted(directory.glob("*.jsonl")):
        for text in path.read_bytes().split(b"\n"):
            try:
                what, at, who, more = json.loads(text)
            except ValueError:
                continue
            yield path.stem, (what, at, who, more)


def last_word(path: Path) -> str:
    """What the last line of a journal says; nothing while it is being written."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 65_536))
        text = file.read()
    last = text.rstrip(b"\n").rpartition(b"\n")[2]
    return last[2:].partition(b'"')[0].decode(errors="replace") if text.endswith(b"\n") else ""


def tally(directory: Path) -> dict[str, int]:
    """How many lines of each kind there are."""
    out = dict.fromkeys((BEGIN, OK, FAILED, UNKNOWN, SCAN, UNION), 0)
    for path in directory.glob("*.jsonl"):
        text = path.read_bytes()
        for what in out:
            out[what] += text.count(b'["%s", ' % what.encode())
    return out
