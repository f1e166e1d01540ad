"""Rows in the task that a column names."""

from __future__ import annotations

from functools import lru_cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from lakelog.paimon.rows.murmur import murmur_one
from lakelog.spark.compat.natives import PARTITION_IDS


def by_partition_id(frame: DataFrame, tasks: int, number: Column) -> DataFrame:
    """The frame in ``tasks`` tasks; ``number`` (int, from 0) is the task of a row."""
    if PARTITION_IDS:
        return frame.repartitionById(tasks, number)
    numbers = sf.array(*(sf.lit(one) for one in numbers_of_tasks(tasks)))
    return frame.repartition(tasks, sf.element_at(numbers, number + 1))


@lru_cache
def numbers_of_tasks(tasks: int) -> tuple[int, ...]:
    """For each task an integer whose hash is of that task."""
    by_task: dict[int, int] = {}
    candidate = 0
    while len(by_task) < tasks:
        by_task.setdefault(murmur_one(candidate.to_bytes(4, "little")) % tasks, candidate)  # as Spark hashes an integer
        candidate += 1
    return tuple(by_task[task] for task in range(tasks))
