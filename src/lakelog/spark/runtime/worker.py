"""The needs of tasks in their Python worker: a garbage collector that ignores libraries, and a task context."""

from __future__ import annotations

import gc
import os
import types
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from pyspark import TaskContext

from lakelog.errors import InternalError, LakelogError
from lakelog.io.logs import configure_logs
from lakelog.io.shared_counts import share_counts
from lakelog.options.boundary import own_error

_FROZEN: set[int] = set()
_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
"""Variable of Spark's processes of Python, in which it is read when an error is reported."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


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


class OwnErrors:
    """A class whose methods Spark calls in a process of Python. Its errors are lakelog's, and come without a traceback.

    Spark reports an error there as text, and the process ends.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name, value in list(vars(cls).items()):
            if isinstance(value, types.FunctionType) and (not name.startswith("_") or name == "__init__"):
                setattr(cls, name, _with_own_errors(value))


def _with_own_errors(function: Callable[_P, _R]) -> Callable[_P, _R]:
    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except Exception as why:
            own = own_error(why)
            if isinstance(own, LakelogError) and not isinstance(own, InternalError):
                os.environ[_HIDE_TRACEBACK] = "1"
            if own is why:
                raise
            raise own from why

    return call


def this_task() -> TaskContext:
    """The context of the current task. Raises InternalError outside of one."""
    context = TaskContext.get()
    if context is None:
        raise InternalError("code for Spark tasks runs outside a task (no TaskContext)")
    return context
