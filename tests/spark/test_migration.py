"""``lakelog migrate --from spark``: tables and views of Spark, and files that Spark reads, copied by its tasks."""

from __future__ import annotations

import datetime as dt

import pytest

from lakelog.errors import CommitConflict, InvalidRequest
from lakelog.lake import Lake
from lakelog.service.migration.migration import plan_migration, run_migration
from lakelog.service.migration.spark_source import SparkSource


def test_files_that_spark_reads_keep_columns_partitions_and_rows(lake: Lake, tmp_path) -> None:
    rows = lake.spark.range(1000).selectExpr("id", "cast(id % 3 as int) AS part", "timestamp_micros(id) AS at")
    rows.write.partitionBy("part").orc(str(tmp_path / "files"))
    source = SparkSource(lake, f"orc.`{tmp_path}/files`")
    plan = plan_migration(lake, source, "db.t", ["part", "id"], options={"bucket": "2"})
    table = run_migration(lake, source, plan)
    assert (table.definition.partition_keys, table.primary_keys) == (("part",), ("part", "id"))
    assert table.latest_snapshot().id == 1
    assert lake.sql("select count(*), sum(id), max(part) from db.t").toArrow().to_pylist()[0] == {
        "count(1)": 1000, "sum(id)": 499_500, "max(part)": 2,
    }  # fmt: skip


def test_values_of_folders_and_names_are_kept(lake: Lake, tmp_path) -> None:
    rows = lake.spark.sql("SELECT 1 AS Id, '01234' AS zip, date'2024-01-31' AS day, '1.10' AS v, 7 AS n")
    rows.write.partitionBy("zip", "day", "v", "n").orc(str(tmp_path / "files"))
    lake.sql("create table db.u (ID int, ZIP string, day date, v string, n string) partitioned by (ZIP, day, v, n)")
    for name in ("db.t", "db.u"):
        source = SparkSource(lake, f"orc.`{tmp_path}/files`")
        table = run_migration(lake, source, plan_migration(lake, source, name))
        (row,) = table.scan().to_polars().rows()
        assert row == (1, "01234", dt.date(2024, 1, 31), "1.10", 7 if name == "db.t" else "7")


def test_keys_of_several_rows_and_null_are_found_before_anything_is_written(lake: Lake) -> None:
    lake.spark.sql("SELECT id % 5 AS id FROM range(8)").createOrReplaceTempView("repeated")
    with pytest.raises(InvalidRequest, match=r"3 keys \(id\) of table db\.t have several rows, such as id = 0; id = 1"):
        plan_migration(lake, SparkSource(lake, "repeated"), "db.t", ["id"])
    lake.spark.sql("SELECT nullif(id, 3) AS id FROM range(8)").createOrReplaceTempView("repeated")
    with pytest.raises(InvalidRequest, match="1 rows have NULL"):
        plan_migration(lake, SparkSource(lake, "repeated"), "db.t", ["id"])
    assert not lake.table_exists("db.t")


class Growing(SparkSource):
    """A source that has more rows when it is read than when it was counted."""

    def count(self) -> int:
        return super().count() - 1


def test_after_a_failed_task_the_new_table_does_not_exist(lake: Lake) -> None:
    broken = "SELECT IF(id = 7, raise_error('broken'), 'a') AS name FROM range(8)"
    lake.spark.sql(broken).createOrReplaceTempView("source")
    source = SparkSource(lake, "source")
    plan = plan_migration(lake, source, "db.t")
    with pytest.raises(Exception, match="broken"):
        run_migration(lake, source, plan)
    assert not lake.table_exists("db.t")


def test_a_source_that_has_changed_during_the_copy_is_named_and_nothing_committed_is_dropped(lake: Lake) -> None:
    lake.spark.sql("SELECT id FROM range(8)").createOrReplaceTempView("source")
    source = Growing(lake, "source")
    plan = plan_migration(lake, source, "db.t")
    with pytest.raises(CommitConflict, match=r"Drop table db\.t, and repeat"):
        run_migration(lake, source, plan)
    assert lake.table("db.t").scan().count() == 8
