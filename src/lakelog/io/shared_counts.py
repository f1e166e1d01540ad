"""Passes counts on to another process of the same machine: a small file each, in a directory that both know.

Spark commits streams in Python processes of its own, beside the driver's. So the process that exports counts names a
directory (``LAKELOG_METRICS_DIR``), its children write theirs there, and it adds them to its own. The file of a process
that has ended stays: counts never go back.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from pathlib import Path
from typing import Final

import orjson

from lakelog.io.clock import monotonic_s
from lakelog.io.metrics import METER, Sample
from lakelog.io.names import new_attempt
from lakelog.options.environment import METRICS_DIR
from lakelog.options.metrics import METRICS

_EVERY_S: Final = 0.5
"""How often a process writes its counts at most."""


class _Writer:
    """Writes the counts of this process when they have changed."""

    def __init__(self, directory: str) -> None:
        self.directory, self.process = directory, os.getpid()
        self._path = Path(directory) / f"{os.getpid()}-{new_attempt()}.json"
        self._lock = threading.Lock()
        self._written = float("-inf")
        self._timer: threading.Timer | None = None

    def changed(self) -> None:
        """Writes at once, or a moment after the last time."""
        with self._lock:
            if self._timer is not None:
                return
            wait = self._written + _EVERY_S - monotonic_s()
            if wait > 0:
                self._timer = threading.Timer(wait, self.write)
                self._timer.daemon = True
                self._timer.start()
                return
        self.write()

    def write(self) -> None:
        """Writes all counts in place of those before; a directory that is gone is left alone."""
        with self._lock:
            self._timer, self._written = None, monotonic_s()
            found = [(s.metric.name, s.labels, s.value, s.counts) for s in METER.samples()]
            part = self._path.with_suffix(".tmp")
            with contextlib.suppress(OSError):
                part.write_bytes(orjson.dumps(found))
                os.replace(part, self._path)


_WRITER: list[_Writer] = []


def counts_directory() -> str | None:
    """The directory in which this process, or the one that it works for, collects counts; None without one."""
    return _WRITER[0].directory if _WRITER else os.environ.get(METRICS_DIR)


def share_counts(directory: str | None = None) -> None:
    """Has this process pass its counts on from now on, if a directory is given or the environment names one.

    A directory that is not there is one of another machine: nothing happens. Called again and again, where a process
    begins to work for lakelog; costs nothing then.
    """
    given = directory or os.environ.get(METRICS_DIR)
    if (
        not given
        or not os.path.isdir(given)
        or (_WRITER and _WRITER[0].directory == given and _WRITER[0].process == os.getpid())
    ):
        return
    writer = _Writer(given)
    _WRITER[:] = [writer]
    METER.when_changed(writer.changed)
    atexit.register(writer.write)


def shared_counts(directory: str) -> list[Sample]:
    """The counts of the other processes that have written theirs there; what cannot be read is left out."""
    out = []
    for path in sorted(Path(directory).glob("*.json")):
        if path.name.partition("-")[0] == str(os.getpid()):
            continue
        with contextlib.suppress(OSError, ValueError):
            for name, labels, value, counts in orjson.loads(path.read_bytes()):
                if name in METRICS:
                    out.append(Sample(METRICS[name], tuple(labels), value, tuple(counts)))
    return out
