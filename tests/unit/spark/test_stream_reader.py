"""The source of streams on the log, without a session: what is planned and what tasks then read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakelog import connect
from lakelog.lake.table import Table
from lakelog.spark.compat.sources import ReadAllAvailable
from lakelog.spark.read.log_stream_reader import LakelogStreamReader, LogRange

SCHEMA = StructType([StructField("id", LongType(), False), StructField("name", StringType())])


def make(path: Path, form: str, rows: int, **options: str) -> Table:
    """A table whose log has these rows."""
    more = "".join(f", '{key}' = '{value}'" for key, value in options.items())
    lake = connect(warehouse=str(path / "warehouse"))
    lake.sql(
        "create table db.t (id bigint, name string, primary key (id)) using lakelog tblproperties ("
        "'log-store.enabled' = 'true', 'bucket' = '2', 'scan.startup.mode' = 'earliest', "
        f"'log-store.data-format' = '{form}'{more})"
    )
    table = lake.table("db.t")
    table.write(pa.table({"id": range(rows), "name": ["x"] * rows}))
    return table


@pytest.mark.parametrize(("form", "rows"), [("debezium-json", 30_000), ("arrow", 250_000)])
def test_many_rows_are_read_by_tasks(tmp_path: Path, form: str, rows: int) -> None:
    reader = LakelogStreamReader(make(tmp_path, form, rows).logical, SCHEMA)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    ranges = [part for part in reader.partitions(start, end) if isinstance(part, LogRange)]
    assert {part.bucket for part in ranges} == {0, 1}
    assert sum(batch.num_rows for part in ranges for batch in reader.read(part)) == rows


def test_a_limit_in_rows_is_kept_by_records_that_hold_many(tmp_path: Path) -> None:
    table = make(tmp_path, "arrow", 250_000, **{"read.max-rows-per-trigger": "100000"})
    reader = LakelogStreamReader(table.logical, SCHEMA)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    ranges = [part for part in reader.partitions(start, end) if isinstance(part, LogRange)]
    held = reader.getCache(start, end) or (batch for part in ranges for batch in reader.read(part))
    assert 0 < sum(batch.num_rows for batch in held) <= 100_000
