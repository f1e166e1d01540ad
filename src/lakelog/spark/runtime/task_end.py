"""Waits, after a Spark job has failed, for its tasks that still run: until they end they write files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lakelog.io.clock import monotonic_s, sleep

_MOST_S: Final = 10.0
"""Spark kills the Python of a task two seconds after it has told it to end (``spark.python.task.killTimeout``)."""


@contextmanager
def task_end(spark: SparkSession, tag: str) -> Iterator[None]:
    """Runs a block of jobs of this thread; when it raises, the error goes on once no task of them runs any more.

    Only for a session that is not remote. ``tag`` marks the jobs, and no others. Waits ten seconds at most.
    """
    context = spark.sparkContext
    context.addJobTag(tag)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Py4JError, OSError):  # the first error is the one to tell
            end = monotonic_s() + _MOST_S
            while _runs(spark, tag) and monotonic_s() < end:
                sleep(0.05)
            context.removeJobTag(tag)
        raise
    context.removeJobTag(tag)


def _runs(spark: SparkSession, tag: str) -> bool:
    """Whether a task of the jobs with a tag runs."""
    tracker = spark.sparkContext.statusTracker()
    ids = spark.sparkContext._jsc.sc().statusTracker().getJobIdsForTag(tag)  # Python's own does not ask by tag
    jobs = [tracker.getJobInfo(job) for job in ids]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return any(stage.numActiveTasks > 0 for stage in stages if stage is not None)
