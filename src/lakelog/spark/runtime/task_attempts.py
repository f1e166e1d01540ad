"""Whether the tasks of a Spark job ran once each: only tasks that ran again leave files of a try that was killed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession

from lakelog.spark.runtime.worker import this_task


class Try(NamedTuple):
    """The try of a task whose answer Spark took: its partition, its number of all tries, its number of this task's."""

    partition: int
    id: int
    number: int

    @staticmethod
    def this() -> Try:
        """That of the task that runs here. Raises InternalError outside of one."""
        context = this_task()
        return Try(context.partitionId(), context.taskAttemptId(), context.attemptNumber())


def each_ran_once(spark: SparkSession, tries: Sequence[Try]) -> bool:
    """Whether a job surely had no other tries than these, which it answered with; False also when that is not known.

    Called in the driver of a session that is not remote. Spark numbers all tries as it starts them, so those of one
    stage that nothing disturbed follow one another in the order of its partitions. A second copy of a slow task
    (``spark.speculation``) would come behind them all.
    """
    if spark.sparkContext.getConf().get("spark.speculation", "false") == "true":
        return False
    return all(t.number == 0 for t in tries) and len({t.id - t.partition for t in tries}) <= 1
