"""What tasks need of the Python worker that they run in: a garbage collector that leaves libraries alone, a context."""

from __future__ import annotations

import gc
import os

from pyspark import TaskContext

from lakelog.errors import InternalError
from lakelog.io.logs import configure_logs
from lakelog.io.shared_counts import share_counts

_FROZEN: set[int] = set()


def prepare_worker(counts: str | None = None) -> None:
    """Moves all objects out of the collector's sight, once per process.

    Spark's worker collects after every task; with polars and pyarrow imported that costs 12–16 ms each time. ``counts``
    is the directory in which the driver collects counts, and the environment says what is logged.
    """
    share_counts(counts)
    if os.getpid() not in _FROZEN:
        _FROZEN.add(os.getpid())
        configure_logs()
        gc.collect()
        gc.freeze()


def this_task() -> TaskContext:
    """The context of the task that runs here. Raises InternalError outside of one."""
    context = TaskContext.get()
    if context is None:
        raise InternalError("what only a task of Spark does runs without Spark's TaskContext")
    return context
