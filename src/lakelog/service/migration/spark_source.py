"""Anything that Spark reads as a source."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from lakelog.io.metrics import METER, Step
from lakelog.lake import Lake
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import is_text
from lakelog.service.migration.source import (
    SHOWN_KEYS,
    KeyFaults,
    Source,
    check_count,
    partitions_in,
    spelled_as,
)
from lakelog.sql.syntax.lexer import quoted_name

_POLL_S: Final = 0.5
_INFERENCE: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"


class SparkSource(Source):
    """What follows FROM in Spark's SQL: a table of Spark's catalogs, a view, or ``format.`path```.

    Executors copy it. Values of folders that their type would print in another way, such as 01234, stay text. Raises
    Spark's errors.
    """

    def __init__(self, lake: Lake, address: str) -> None:
        self._spark: Any = lake.spark
        frame = self._spark.sql(f"SELECT * FROM {address}")
        self.partition_by = partitions_in(frame.inputFiles(), frame.columns)
        self._frame = self._as_written(frame, address) if self.partition_by else frame
        self.schema = self._frame.limit(0).toArrow().schema

    def _as_written(self, frame: Any, address: str) -> Any:
        """The rows with values of folders that lose nothing in the types that Spark finds for them."""
        types, exact = dict(frame.dtypes), []
        with _setting(self._spark, _INFERENCE, "false"):
            texts = self._spark.sql(f"SELECT * FROM {address}")
        for name, kind in texts.dtypes:
            quoted = quoted_name(name)
            typed = f"CAST({quoted} AS {types[name]})"
            if kind != types[name] and texts.where(f"NOT {quoted} <=> CAST({typed} AS STRING)").isEmpty():
                exact.append(f"{typed} AS {quoted}")
            else:
                exact.append(quoted)
        return texts.selectExpr(*exact)

    def fit(self, definition: TableSchema) -> None:
        """Takes over the table's names, and text for values of folders."""
        names = spelled_as(self._frame.columns, definition)
        folders = {name.lower() for name in self.partition_by}
        columns = [
            f"CAST({quoted_name(old)} AS STRING) AS {quoted_name(name)}"
            if name.lower() in folders and is_text(definition.field(name).type)
            else f"{quoted_name(old)} AS {quoted_name(name)}"
            for old, name in zip(self._frame.columns, names, strict=True)
        ]
        self._frame = self._frame.selectExpr(*columns)
        self.schema = self._frame.limit(0).toArrow().schema

    def count(self) -> int:
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
        count = repeated.count()
        examples = repeated.orderBy(*names).limit(SHOWN_KEYS).collect() if count else []
        return KeyFaults(nulls, count, tuple(row.asDict() for row in examples))

    def copy(self, lake: Lake, table: str, options: Mapping[str, str], expected: int) -> int:
        """Writes the rows by Spark's tasks. The count is checked after the commit: the table has rows then."""
        with METER.step("migrate", "tasks", table=table) as step, _counted(self._spark, step):
            rows = lake.write(self._frame, table, options, missing="null")["num_inserted_rows"]
        check_count(rows, expected, f"Drop table {table}, and repeat the command")
        return rows


@contextmanager
def _setting(spark: Any, key: str, value: str) -> Iterator[None]:
    """A setting of the session during the block."""
    before = spark.conf.get(key)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.set(key, before)


@contextmanager
def _counted(spark: Any, step: Step) -> Iterator[None]:
    """Counts the finished tasks of a local or cluster session during the block."""
    done = threading.Event()

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not done.wait(_POLL_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            for stage in stages:
                if stage is not None:
                    step.done, step.total = stage.numCompletedTasks, stage.numTasks

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
