"""The figures that exporters show: counts of this process and its children, and what tables are like now."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lakelog.io.metrics import METER, Sample, merged
from lakelog.io.shared_counts import shared_counts
from lakelog.options.environment import METRICS_DIR
from lakelog.service.metrics.table_gauges import TableStates

if TYPE_CHECKING:
    from lakelog.lake import Lake

_MADE: Final[list[str]] = []
"""The directory that this process has made for its children, if it has."""


def collect_from_children() -> str:
    """Names, once, a directory in which processes that start from now on pass their counts on; returns it."""
    given = os.environ.get(METRICS_DIR)
    if given:
        os.makedirs(given, exist_ok=True)
        return given
    directory = tempfile.mkdtemp(prefix="lakelog-metrics-")
    _MADE.append(directory)
    os.environ[METRICS_DIR] = directory
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


class Figures:
    """All samples of now; made once for each exporter."""

    def __init__(self, lakes: Sequence[Lake] = ()) -> None:
        self._states = TableStates(lakes)

    def samples(self) -> list[Sample]:
        """Counts since the processes began, then the gauges of the tables."""
        directory = os.environ.get(METRICS_DIR)
        children = shared_counts(directory) if directory else []
        return [*merged([*METER.samples(), *children]), *self._states.samples()]
