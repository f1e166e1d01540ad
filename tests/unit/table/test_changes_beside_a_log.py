"""A table with a log and a changelog of its files: readers of either are told what happened."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.lake.table import Table

Told = list[tuple[str, int, int]]


def make(warehouse: Path, producer: str) -> Table:
    lake = connect(warehouse=str(warehouse))
    lake.sql(
        "create table db.t (id int, v int, primary key (id)) using lakelog tblproperties "
        f"('log-store.enabled' = 'true', 'bucket' = '1', 'changelog-producer' = '{producer}')"
    )
    return lake.table("db.t")


def write(table: Table, kinds: list[str], ids: list[int], values: list[int], **options: str) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array(values, pa.int32()), "_row_kind": kinds})
    table.write(rows, options=options)


def told(batches: Iterable[pa.RecordBatch]) -> Told:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["_row_kind"], row["id"], row["v"]) for row in rows]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_log_has_rows_and_the_files_have_differences(tmp_path: Path, producer: str) -> None:
    table = make(tmp_path, producer)
    write(table, ["+I", "+I"], [1, 2], [10, 20])
    table.compact()
    write(table, ["+U", "-D"], [1, 2], [11, 20])
    table.compact()
    assert told(table.tail("earliest", "latest")) == [("+I", 1, 10), ("+I", 2, 20), ("+I", 1, 11), ("-D", 2, 20)]
    files = told(batch for plan in table.stream_plan(from_snapshot=1) for batch in plan.to_batches())
    assert files == [("+I", 1, 10), ("+I", 2, 20), ("-U", 1, 10), ("+U", 1, 11), ("-D", 2, 20)]


def test_a_quiet_write_is_in_the_files_and_not_in_the_log(tmp_path: Path) -> None:
    table = make(tmp_path, "none")
    write(table, ["+I"], [1], [10])
    write(table, ["+I"], [2], [20], **{"change-tracking": "false"})
    write(table, ["+I"], [3], [30], **{"change-tracking": "false", "emit.mode": "log"})
    assert told(table.tail("earliest", "latest")) == [("+I", 1, 10)]
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [1, 2, 3]
