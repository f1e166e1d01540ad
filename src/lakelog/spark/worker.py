"""What tasks need of the Python worker that they run in: a garbage collector that leaves libraries alone, a context."""

from __future__ import annotations

import gc
import os

from pyspark import TaskContext

from lakelog.errors import InternalError

_FROZEN: set[int] = set()


def settle() -> None:
    """Moves all objects out of the collector's sight, once per process.

    Spark's worker collects after every task; with polars and pyarrow imported that costs 12–16 ms each time.
    """
    if os.getpid() not in _FROZEN:
        _FROZEN.add(os.getpid())
        gc.collect()
        gc.freeze()


def this_task() -> TaskContext:
    """The context of the task that runs here. Raises InternalError outside of one."""
    context = TaskContext.get()
    if context is None:
        raise InternalError("what only a task of Spark does runs without Spark's TaskContext")
    return context
