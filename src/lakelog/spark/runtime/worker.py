"""The needs of tasks in their Python worker: a garbage collector that ignores libraries, and a task context."""

from __future__ import annotations

import gc
import os

from pyspark import TaskContext

from lakelog.errors import InternalError
from lakelog.io.logs import configure_logs
from lakelog.io.shared_counts import share_counts

_FROZEN: set[int] = set()


def prepare_worker(counts: str | None = None) -> None:
    """Excludes all current objects from garbage collection, once per process.

    Spark's worker collects after every task; with polars and pyarrow imported that costs 12–16 ms each time. ``counts``
    is the directory in which the driver collects counts; the environment sets the log level.
    """
    share_counts(counts)
    if os.getpid() not in _FROZEN:
        _FROZEN.add(os.getpid())
        configure_logs()
        gc.collect()
        gc.freeze()


def this_task() -> TaskContext:
    """The context of the current task. Raises InternalError outside of one."""
    context = TaskContext.get()
    if context is None:
        raise InternalError("code for Spark tasks runs outside a task (no TaskContext)")
    return context
