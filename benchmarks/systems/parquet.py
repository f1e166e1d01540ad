"""Plain Parquet files of Spark: the floor. Batches are appended as they are, and scans read all of their rows."""

from __future__ import annotations

from systems.base import COLUMNS, SparkSystem


class Parquet(SparkSystem):
    """No keys: every row of every batch stays, which ``truth`` says."""

    truth = "appended"

    def base_load(self, files: str) -> None:
        self.rows(files).write.mode("overwrite").parquet(str(self.place / "table"))
        self._show()

    def upsert(self, file: str) -> None:
        self.rows(file).select(*COLUMNS).write.mode("append").parquet(str(self.place / "table"))
        self._show()

    def _show(self) -> None:
        self.spark.read.parquet(str(self.place / "table")).createOrReplaceTempView("t")


SYSTEM = Parquet
