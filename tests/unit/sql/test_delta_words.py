"""OPTIMIZE, VACUUM and RESTORE, the words of Delta's users."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidRequest, InvalidSchema, NotFound


@pytest.fixture
def lake(tmp_path):
    made = lakelog.connect(warehouse=str(tmp_path))
    made.sql("create table db.t (day string, id int, primary key (day, id)) partitioned by (day)")
    for number in range(4):
        made.table("db.t").write(pa.table({"day": ["a", "b"], "id": pa.array([number, number], pa.int32())}))
    return made


def ids(lake) -> list[int]:
    return sorted(set(lake.table("db.t").scan().to_arrow().column("id").to_pylist()))


def test_optimize_compacts_all_or_some_partitions(lake) -> None:
    assert lake.sql("optimize db.t where day = 'a'").to_pylist()[0]["buckets"] == 1
    assert lake.sql("OPTIMIZE db.t").to_pylist()[0]["files_after"] == 1
    assert ids(lake) == [0, 1, 2, 3]
    with pytest.raises(InvalidRequest, match="are sorted by its primary key"):
        lake.sql("optimize db.t zorder by (id)")


def test_alter_table_compact_compacts_all_or_some_partitions(lake) -> None:
    assert lake.sql("alter table db.t partition (DAY = 'b') compact").to_pylist()[0]["buckets"] == 1
    assert lake.sql("alter table db.t compact").to_pylist()[0]["files_after"] == 1
    assert ids(lake) == [0, 1, 2, 3]
    with pytest.raises(InvalidSchema, match="'x' is not a partition column"):
        lake.sql("alter table db.t partition (x = 'b') compact")


@pytest.mark.parametrize("name", ["tag", "branch", "compact", "partition"])
def test_a_table_may_be_called_as_what_is_altered(lake, name: str) -> None:
    lake.sql(f"create table db.{name} (id int, v int); use db")
    lake.sql(f"alter table {name} drop column v")
    assert lake.table(f"db.{name}").schema.names == ["id"]


def test_restore_goes_back_to_a_snapshot_a_tag_or_a_time(lake) -> None:
    lake.table("db.t").create_tag("two", 2)
    at = lake.table("db.t").latest_snapshot().time_millis
    time.sleep(0.002)
    lake.table("db.t").write(pa.table({"day": ["a"], "id": pa.array([9], pa.int32())}))
    lake.sql(f"restore table db.t to timestamp as of '{lakelog_time(at)}'")
    assert ids(lake) == [0, 1, 2, 3]
    assert lake.sql("restore db.t to version as of 3").to_pylist() == [{"snapshot_id": 3}]
    assert ids(lake) == [0, 1, 2]
    lake.sql("restore db.t to version as of 'two'")
    assert ids(lake) == [0, 1]
    with pytest.raises(NotFound):
        lake.sql("restore db.t to version as of 99")


def lakelog_time(millis: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(millis / 1000)) + f".{millis % 1000:03}"


def test_restore_takes_rows_back_in_the_log_too(lake) -> None:
    lake.sql("create table db.u (id int, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
    for number in (1, 2):
        lake.table("db.u").write(pa.table({"id": pa.array([number], pa.int32())}))
    lake.sql("restore db.u to version as of 1")
    log = pa.Table.from_batches(list(lake.table("db.u").tail("earliest", stop="latest")))
    assert log["_row_kind"].to_pylist() == ["+I", "+I", "-D"]


def test_vacuum_expires_snapshots_and_removes_unreferenced_files(lake, tmp_path) -> None:
    assert lake.sql("vacuum db.t dry run").num_rows == 0
    assert lake.sql("vacuum db.t").to_pylist()[0]["deleted_snapshots_count"] == 0
    found = lake.sql("vacuum db.t retain 0 hours").to_pylist()
    assert found == [{"deleted_snapshots_count": 3, "deleted_file_count": 0, "deleted_file_total_len_in_bytes": 0}]
    assert ids(lake) == [0, 1, 2, 3]
