"""Anything that Spark reads as a source."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lakelog.lake import Lake
from lakelog.service.migration.source import (
    PROGRESS_EVERY_S,
    SHOWN_KEYS,
    KeyFaults,
    Progress,
    Source,
    check_count,
    partitions_in,
)
from lakelog.sql.syntax.lexer import quoted_name


class SparkSource(Source):
    """What follows FROM in Spark's SQL: a table of Spark's catalogs, a view, or ``format.`path```.

    Executors copy it. Raises Spark's errors.
    """

    def __init__(self, lake: Lake, address: str) -> None:
        self._spark: Any = lake.spark
        self._frame = self._spark.sql(f"SELECT * FROM {address}")
        self.schema = self._frame.limit(0).toArrow().schema
        self.partition_by = partitions_in(self._frame.inputFiles(), self.schema.names)

    def count(self) -> int:
        """The number of rows."""
        return int(self._frame.count())

    def key_faults(self, keys: Sequence[str]) -> KeyFaults:
        """The faults of the key, by two queries."""
        if not keys:
            return KeyFaults()
        names = [quoted_name(name) for name in keys]
        null = " OR ".join(f"{name} IS NULL" for name in names)
        nulls = self._spark.sql(f"SELECT count(*) FROM {{rows}} WHERE {null}", rows=self._frame).first()[0]
        listed = ", ".join(names)
        repeated = self._spark.sql(
            f"SELECT {listed} FROM {{rows}} WHERE NOT ({null}) GROUP BY {listed} HAVING count(*) > 1", rows=self._frame
        )
        found = repeated.count()
        examples = repeated.orderBy(*names).limit(SHOWN_KEYS).collect() if found else []
        return KeyFaults(nulls, found, tuple(row.asDict() for row in examples))

    def copy(self, lake: Lake, table: str, options: Mapping[str, str], expected: int, progress: Progress) -> int:
        """Writes the rows by Spark's tasks. The count is checked after the commit: the table has rows then."""
        with _reported(self._spark, progress):
            rows = lake.write(self._frame, table, options, missing="null")["num_inserted_rows"]
        check_count(rows, expected, f"Drop table {table}, and repeat the command")
        return rows


@contextmanager
def _reported(spark: Any, progress: Progress) -> Iterator[None]:
    """Reports the finished tasks of a local or cluster session during the block."""
    done = threading.Event()

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not done.wait(PROGRESS_EVERY_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            for stage in stages:
                if stage is not None:
                    progress(f"{stage.numCompletedTasks:,} of {stage.numTasks:,} tasks")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
