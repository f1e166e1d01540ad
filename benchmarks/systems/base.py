"""What a system must be able to do to run workload W, and what those on Spark share; standard library only."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Protocol

COLUMNS = ("id", "grp", "amount", "name", "payload", "ts")
ALL_SUMS = (
    "select count(*) as count, sum(id) as ids, sum(grp) as groups, sum(amount) as amounts, "
    "sum(length(name)) as names, sum(length(payload)) as payloads, max(ts) as newest from {table}"
)
"""The query that touches every column; its answer is compared, but for the time stamp."""


class System(Protocol):
    """One table format with one way to run it; ``compact`` may be missing: then there are no steps after it."""

    truth: str
    """Which rows it must show after the batches: ``live``, ``undeleted`` (it skips deletes), ``appended``."""

    def start(self) -> None:
        """Is ready to run a statement."""

    def base_load(self, files: str) -> None:
        """Makes the table from a directory of Parquet files."""

    def upsert(self, file: str) -> None:
        """Writes a batch; rows whose ``deleted`` is true delete their key."""

    def scan_agg(self) -> dict[str, Any]:
        """The answer to ``ALL_SUMS``."""

    def scan_pruned(self) -> float:
        """The sum of ``amount``."""

    def point(self, key: int) -> dict[str, Any] | None:
        """All columns of one row."""

    def range(self, low: int, high: int) -> dict[str, Any]:
        """The answer to ``ALL_SUMS`` over a range of keys, both ends in it."""

    def plan(self) -> None:
        """Plans the scan of the whole table, without reading rows."""

    def compact(self) -> None:
        """Merges what is there into as few files as the format makes."""

    def stop(self) -> None:
        """Ends processes."""


class SparkSystem:
    """A system on Spark: the reading steps are the same SQL for all of them."""

    truth = "live"
    table = "t"
    jars: tuple[str, ...] = ()
    settings: dict[str, str] = {}

    def __init__(self, place: Path, jars: list[str]) -> None:
        self.place, self.jar_files = place, jars
        self.spark: Any = None

    def start(self) -> None:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("workload").master("local[2]")
        for key, value in {**session_settings(self.place), **self.own_settings()}.items():
            builder = builder.config(key, value)
        if self.jar_files:
            builder = builder.config("spark.jars", ",".join(self.jar_files))
        self.spark = builder.getOrCreate()
        self.spark.sql("select 1").collect()

    def own_settings(self) -> dict[str, str]:
        """What this system's session needs besides; paths may follow from ``place``."""
        return {}

    def rows(self, file: str) -> Any:
        """A file or directory of the input as a DataFrame."""
        return self.spark.read.parquet(file)

    def sql(self, text: str) -> Any:
        """A query over ``table``."""
        return self.spark.sql(text)

    def scan_agg(self) -> dict[str, Any]:
        return self._one(ALL_SUMS.format(table=self.table))

    def scan_pruned(self) -> float:
        return float(self.sql(f"select sum(amount) as s from {self.table}").collect()[0][0] or 0)

    def point(self, key: int) -> dict[str, Any] | None:
        found = self.sql(f"select {', '.join(COLUMNS)} from {self.table} where id = {key}").collect()
        return found[-1].asDict() if found else None

    def range(self, low: int, high: int) -> dict[str, Any]:
        return self._one(ALL_SUMS.format(table=self.table) + f" where id between {low} and {high}")

    def plan(self) -> None:
        frame = self.sql(f"select {', '.join(COLUMNS)} from {self.table}")
        frame._jdf.queryExecution().toRdd().getNumPartitions()

    def stop(self) -> None:
        self.spark.stop()

    def _one(self, text: str) -> dict[str, Any]:
        found: dict[str, Any] = self.sql(text).collect()[0].asDict()
        return found


def session_settings(place: Path) -> dict[str, str]:
    """The settings that every session on Spark gets."""
    return {
        "spark.driver.memory": "6g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "spark-warehouse"),
        "spark.log.level": "ERROR",
    }


def fresh(directory: Path) -> Path:
    """An empty directory."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory
