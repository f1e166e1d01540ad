"""Cleanup of a Python worker of Spark before it ends, and detection of other attempts of its task.

Spark ends its workers by SIGHUP or ``os._exit``, without ``atexit``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lakelog.io.clock import monotonic_s, sleep
from lakelog.spark.runtime.worker import this_task

_Handler = Callable[[int, FrameType | None], Any] | int | None
_LONGEST_S = 30.0
"""Maximum time that an unresponsive store delays the end of a process."""
_EXIT = os._exit
_SIGNAL = signal.signal
_MOST_S: Final = 10.0
"""Maximum wait. Spark kills a task's Python two seconds after its end signal (``spark.python.task.killTimeout``)."""


class _End:
    """The end of this process, which waits for the running block and happens once."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.last: Callable[[], None] = lambda: None
        self.is_running = False
        self._asked = self._begun = False

    def hang_up(self, _: int, __: FrameType | None) -> None:
        """Spark's daemon ends, and so does this worker, after the running block."""
        self._asked = True
        self.when_idle()

    def keep(self, signalnum: int, handler: _Handler) -> _Handler:
        """Replaces ``signal.signal``, because Spark's daemon resets SIGHUP on each reuse of a worker."""
        if signalnum == signal.SIGHUP and handler is signal.SIG_DFL and self.process == os.getpid():
            return signal.getsignal(signalnum)
        return _SIGNAL(signalnum, handler)

    def when_idle(self) -> None:
        """Ends this process if the end was requested and no block runs."""
        if self._asked and not self.is_running and not self._begun:
            self.exit(0)

    def exit(self, status: int) -> NoReturn:
        """Replaces ``os._exit``, which a worker calls if Spark closes its socket before the signal."""
        if self.process != os.getpid() or self._begun:  # a forked child, or a second call
            _EXIT(status)
        self._begun = True
        limit = threading.Timer(_LONGEST_S, _EXIT, (1,))
        limit.daemon = True
        limit.start()
        try:
            self.last()
        finally:
            _EXIT(status)


_END = _End()


@contextlib.contextmanager
def ending_later(last: Callable[[], None]) -> Iterator[None]:
    """Runs a block that SIGHUP does not interrupt; from then on ``last`` is called before this process ends.

    Called in the main thread of a worker, where Spark runs sinks; does nothing in another thread.
    """
    global _END
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if _END.process != os.getpid() or os._exit is _EXIT:
        _END = _End()
        _SIGNAL(signal.SIGHUP, _END.hang_up)
        signal.signal = _END.keep
        os._exit = _END.exit
    _END.last, _END.is_running = last, True
    try:
        yield
    finally:
        _END.is_running = False
        _END.when_idle()


class Try(NamedTuple):
    """The task attempt whose result Spark accepted: its partition, its global number, its number within the task."""

    partition: int
    id: int
    number: int

    @staticmethod
    def this() -> Try:
        """The attempt of the current task. Raises InternalError outside of one."""
        context = this_task()
        return Try(context.partitionId(), context.taskAttemptId(), context.attemptNumber())


def each_ran_once(spark: SparkSession, tries: Sequence[Try]) -> bool:
    """True if a job certainly had no other attempts than these, which returned results; False also if unknown.

    Called in the driver of a session that is not remote. Spark numbers all attempts as it starts them. In an
    undisturbed stage they are consecutive, in the order of its partitions. A second copy of a slow task
    (``spark.speculation``) would follow all of them.
    """
    if spark.sparkContext.getConf().get("spark.speculation", "false") == "true":
        return False
    return all(t.number == 0 for t in tries) and len({t.id - t.partition for t in tries}) <= 1


@contextmanager
def task_end(spark: SparkSession, tag: str) -> Iterator[None]:
    """Runs a block of jobs of this thread; an error is raised once none of their tasks runs any more.

    Only for a session that is not remote. ``tag`` marks the jobs, and no others. Waits ten seconds at most.
    """
    context = spark.sparkContext
    context.addJobTag(tag)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Py4JError, OSError):  # the first error is the one to raise
            end = monotonic_s() + _MOST_S
            while _runs(spark, tag) and monotonic_s() < end:
                sleep(0.05)
            context.removeJobTag(tag)
        raise
    context.removeJobTag(tag)


def _runs(spark: SparkSession, tag: str) -> bool:
    """True if a task of the jobs with a tag runs."""
    tracker = spark.sparkContext.statusTracker()
    ids = spark.sparkContext._jsc.sc().statusTracker().getJobIdsForTag(tag)  # Python's own has no lookup by tag
    jobs = [tracker.getJobInfo(job) for job in ids]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return any(stage.numActiveTasks > 0 for stage in stages if stage is not None)
