"""Sharing of metrics between processes of one machine, by one small file per process in a common directory.

Spark commits streams in separate Python processes. So the process that exports metrics sets a directory
(``LAKELOG_METRICS_DIR``). Its children write their metrics there, and it adds them to its own. The file of a process
that has ended stays, so that counters never decrease.
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
"""Minimum seconds between two writes of a process."""


class _Writer:
    """Writes the metrics of this process after changes."""

    def __init__(self, directory: str) -> None:
        self.directory, self.process = directory, os.getpid()
        self._path = Path(directory) / f"{os.getpid()}-{new_attempt()}.json"
        self._lock = threading.Lock()
        self._written = float("-inf")
        self._timer: threading.Timer | None = None

    def changed(self) -> None:
        """Writes immediately, or with a delay after the last write."""
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
        """Overwrites the file with all metrics; does nothing if the directory was deleted."""
        with self._lock:
            self._timer, self._written = None, monotonic_s()
            samples = [(s.metric.name, s.labels, s.value, s.counts) for s in METER.samples()]
            part = self._path.with_suffix(".tmp")
            with contextlib.suppress(OSError):
                part.write_bytes(orjson.dumps(samples))
                os.replace(part, self._path)


_WRITER: list[_Writer] = []


def counts_directory() -> str | None:
    """The directory in which this process, or its parent, collects metrics; None without one."""
    return _WRITER[0].directory if _WRITER else os.environ.get(METRICS_DIR)


def share_counts(directory: str | None = None) -> None:
    """Makes this process share its metrics, if a directory is passed or set in the environment.

    Does nothing if the directory does not exist, because it is on another machine. Called at each entry point of
    lakelog in a process; repeated calls cost nothing.
    """
    path = directory or os.environ.get(METRICS_DIR)
    if (
        not path
        or not os.path.isdir(path)
        or (_WRITER and _WRITER[0].directory == path and _WRITER[0].process == os.getpid())
    ):
        return
    writer = _Writer(path)
    _WRITER[:] = [writer]
    METER.when_changed(writer.changed)
    atexit.register(writer.write)


def shared_counts(directory: str) -> list[Sample]:
    """The metrics of the other processes in the directory, without unreadable files."""
    out = []
    for path in sorted(Path(directory).glob("*.json")):
        if path.name.partition("-")[0] == str(os.getpid()):
            continue
        with contextlib.suppress(OSError, ValueError):
            for name, labels, value, counts in orjson.loads(path.read_bytes()):
                if name in METRICS:
                    out.append(Sample(METRICS[name], tuple(labels), value, tuple(counts)))
    return out
