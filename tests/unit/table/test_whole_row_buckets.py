"""A table without a key and without ``bucket-key``: the whole row decides the bucket, in files and in the log."""

from __future__ import annotations

import json
from collections import defaultdict

import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.logstore.clients import reader_for
from lakelog.table.read.file_scan import Scan

Row = tuple[int, str]

ROWS = pa.table({"a": pa.array([i % 50 for i in range(200)], pa.int32()), "b": [f"v{i % 50}" for i in range(200)]})


def _in_files(table: Table) -> dict[Row, set[int]]:
    """Row → the buckets that it is in."""
    scan, found = Scan(table.logical), defaultdict[Row, set[int]](set)
    for split in scan.plan():
        for batch in scan.read(split):
            for row in batch.to_pylist():
                found[row["a"], row["b"]].add(split.bucket)
    return found


def _in_log(table: Table) -> dict[Row, set[int]]:
    """Row → the partitions of the log that it is in, as a plain consumer finds it."""
    log, found = table.logical.log, defaultdict[Row, set[int]](set)
    assert log is not None
    reader = reader_for(log)
    for bucket, end in reader.end_offsets().items():
        for value in reader.read(bucket, 0, end, 1000).column("value").to_pylist():
            after = None if value is None else json.loads(value).get("after")
            if after is not None:
                found[after["a"], after["b"]].add(bucket)
    return found


def test_equal_rows_are_in_one_partition_of_the_log_and_in_the_bucket_of_its_number(lake: Lake) -> None:
    lake.sql(
        "create table db.t (a int, b string) tblproperties ('log-store.enabled' = 'true', 'bucket' = '4', "
        "'log-store.data-format' = 'debezium-json')"
    )
    table = lake.table("db.t")
    table.write(ROWS)
    table.seal()
    assert table.scan().to_arrow().num_rows == ROWS.num_rows
    places = _in_files(table)
    assert len(places) == 50 and all(len(buckets) == 1 for buckets in places.values())
    assert set().union(*places.values()) == {0, 1, 2, 3}, "a log without a key scales"
    assert _in_log(table) == places


def test_the_columns_of_the_row_are_kept_as_the_key_of_its_bucket(lake: Lake) -> None:
    lake.sql(
        "create table db.p (a int, day date, tags array<string>, b string) partitioned by (day) "
        "tblproperties ('bucket' = '2')"
    )
    assert lake.table("db.p").definition.options["bucket-key"] == "a,b"
    lake.sql("alter table db.p add column c int")  # equal rows still have one bucket
    with pytest.raises(InvalidRequest, match="bucket-key"):
        lake.sql("alter table db.p drop column b")
    with pytest.raises(InvalidRequest, match="none that can"):
        lake.sql("create table db.n (tags array<string>) tblproperties ('bucket' = '2')")
    lake.sql("create table db.one (a int) tblproperties ('bucket' = '-1')")
    assert "bucket-key" not in lake.table("db.one").definition.options
