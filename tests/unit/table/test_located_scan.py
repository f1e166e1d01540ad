"""Metadata columns: each row says the file, position, partition and bucket that it is read from."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog import Table, connect
from lakelog.errors import InvalidOption, InvalidRequest, UnsupportedFeature
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.register import register_writer
from lakelog.table.open import scan_of
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import make, rows

ALL = "__paimon_file_path, __paimon_row_index, __paimon_bucket, _metadata"


def made(tmp_path: Path, options: str = "'bucket' = '1'", key: str = ", primary key (id)", parts: str = "") -> Table:
    lake = connect(tmp_path / "warehouse")
    lake.sql(f"create table db.t (id int, v int, p string{key}) using lakelog {parts} tblproperties ({options})")
    return lake.table("db.t")


def write(table: Table, ids: Sequence[int], v: int, p: str = "x", kind: str = "+I") -> None:
    names = ["id", "v", "p"] + (["_row_kind"] if kind != "+I" else [])
    table.write(pa.table([list(ids), [v] * len(ids), [p] * len(ids), [kind] * len(ids)][: len(names)], names))


def located(table: Table, columns: str = ALL, **options: str) -> list[dict[str, Any]]:
    scan = table.scan(options={"scan.metadata-columns": columns, **options})
    return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])


def check_places(found_rows: Sequence[dict[str, Any]]) -> None:
    """Each row is the row of its file at its position."""
    for row in found_rows:
        found = pq.read_table(row["__paimon_file_path"]).to_pylist()[row["__paimon_row_index"]]
        assert [found[name] for name in ("id", "v", "p")] == [row["id"], row["v"], row["p"]]
        assert row["_metadata"]["file_path"] == row["__paimon_file_path"]
        assert row["_metadata"]["row_index"] == row["__paimon_row_index"]
        assert row["_metadata"]["file_size"] == Path(row["__paimon_file_path"]).stat().st_size


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ("'bucket' = '1'", ", primary key (id)"),
        ("'bucket' = '3'", ", primary key (id)"),
        ("'bucket' = '1', 'deletion-vectors.enabled' = 'true'", ", primary key (id)"),
        ("'bucket' = '-1'", ""),
        ("'bucket' = '2', 'bucket-key' = 'id'", ""),
    ],
)
def test_a_row_is_where_its_columns_say(tmp_path: Path, options: str, key: str) -> None:
    table = made(tmp_path, options, key)
    write(table, range(100), 1)
    write(table, range(50, 60), 2)
    if key:
        write(table, [7, 99], 1, kind="-D")
    found = located(table)
    values = sorted((r["id"], r["v"]) for r in table.scan().to_arrow().to_pylist())
    assert sorted((r["id"], r["v"]) for r in found) == values
    assert len(values) == (98 if key else 110)
    assert len({row["__paimon_file_path"] for row in found}) > 1 or "vectors" in options, "deletes may compact them"
    check_places(found)


def test_a_filter_on_the_place_of_a_row_and_one_on_its_columns(tmp_path: Path) -> None:
    table = made(tmp_path)
    write(table, range(10), 1)
    write(table, [3, 4], 2)
    scan = table.scan(columns=["id"], options={"scan.metadata-columns": ALL})
    conditions = ("__paimon_row_index >= 8", "__paimon_bucket = 1", "id = 3 and __paimon_row_index = 0")
    found = [table.scan(["id"], c, options={"scan.metadata-columns": ALL}).to_arrow() for c in conditions]
    assert [rows_of["id"].to_pylist() for rows_of in found] == [[8, 9], [], [3]]
    assert scan.schema.names == ["id"] and scan.count() == 10


def test_partition_and_bucket_of_a_row(tmp_path: Path) -> None:
    table = made(tmp_path, "'bucket' = '2'", ", primary key (id, p)", "partitioned by (p)")
    write(table, range(20), 1, "x")
    write(table, range(20), 1, "y")
    found = located(table, "__paimon_partition, __paimon_bucket, __paimon_file_path")
    for row in found:
        assert row["__paimon_partition"] == {"p": row["p"]}
        assert f"/p={row['p']}/bucket-{row['__paimon_bucket']}/" in row["__paimon_file_path"]
    assert {row["__paimon_bucket"] for row in found} == {0, 1}


def test_a_row_that_is_in_no_file_yet_has_none(tmp_path: Path) -> None:
    table = make(tmp_path)
    handle = table.logical
    table.write(rows(1, 2))
    register_writer(handle, "w")
    task = TaskWriter(handle, "w", 0, lane=0)
    task.write(rows(2, 3, name="b").to_batches()[0])
    committer = Committer(handle, "w")
    committer.commit(0, [task.finish()])
    found = {row["id"]: row["__paimon_file_path"] for row in located(table, "__paimon_file_path")}
    assert found.keys() == {1, 2, 3}
    assert found[1].endswith(".parquet") and found[2] is None and found[3] is None
    seal(committer)
    assert all(row["__paimon_file_path"] for row in located(table, "__paimon_file_path"))


@pytest.mark.parametrize(
    "options",
    ["'merge-engine' = 'aggregation'", "'merge-engine' = 'partial-update'", "'sequence.field' = 'v'"],
)
def test_merged_rows_have_a_bucket_and_no_file(tmp_path: Path, options: str) -> None:
    table = made(tmp_path, f"'bucket' = '1', {options}")
    write(table, [1], 1)
    assert located(table, "__paimon_bucket")[0]["__paimon_bucket"] == 0
    for column in ("__paimon_file_path", "__paimon_row_index", "_metadata"):
        with pytest.raises(UnsupportedFeature, match=rf"'{column}' has no value in table db.t.*`db.t\$files`"):
            located(table, column)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    table = made(tmp_path)
    for columns, error, options, text in (
        ("__paimon_row_id", InvalidOption, {}, "is not one of __paimon_file_path"),
        ("__paimon_partition", InvalidRequest, {}, "table db.t has no partitions"),
        ("__paimon_bucket", InvalidRequest, {"incremental-between": "0,1"}, "'read.mode' = 'file'"),
    ):
        with pytest.raises(error, match=text):
            located(table, columns, **options)


def test_a_scan_with_places_travels_to_executors_and_in_time(tmp_path: Path) -> None:
    table = made(tmp_path)
    write(table, [1], 1)
    write(table, [1], 2)
    hints = {"scan.metadata-columns": "__paimon_row_index", "scan.snapshot-id": "1"}
    scan = pickle.loads(pickle.dumps(scan_of(table.logical.with_hints(hints))))
    assert scan.to_arrow().to_pylist() == [{"id": 1, "v": 1, "p": "x", "__paimon_row_index": 0}]
