"""SHOW and DESCRIBE of what tables on disk have."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import NotFound


@pytest.fixture
def lake(tmp_path):
    made = lakelog.connect(warehouse=str(tmp_path))
    made.sql("create database db")
    return made


def fill(table, rows: list[dict]) -> None:
    with table.writer() as writer:
        writer.write(pa.Table.from_pylist(rows, schema=table.schema))


def test_partitions(lake) -> None:
    lake.sql("create table db.t (day date, kind string, id int) partitioned by (day, kind)")
    rows = [{"day": day, "kind": kind, "id": 1} for day in (19000, 19001) for kind in ("a", None)]
    fill(lake.table("db.t"), rows)

    def shown(more: str = "") -> list[str]:
        return lake.sql(f"show partitions db.t{more}").column("partition").to_pylist()

    null = "__DEFAULT_PARTITION__"
    assert shown() == [f"day=2022-01-0{n}/kind={kind}" for n in (8, 9) for kind in (null, "a")]
    assert shown(" partition (day = '2022-01-08')") == [f"day=2022-01-08/kind={null}", "day=2022-01-08/kind=a"]
    assert shown(" partition (kind = null, day = '2022-01-09')") == [f"day=2022-01-09/kind={null}"]
    assert shown(" partition (kind = 'b')") == []


def test_history(lake) -> None:
    lake.sql("create table db.t (id int, primary key (id))")
    assert lake.sql("describe history db.t").num_rows == 0
    for number in range(3):
        fill(lake.table("db.t"), [{"id": number}, {"id": 100}])
    lake.table("db.t").compact()
    history = lake.sql("desc history db.t").to_pylist()
    assert [h["version"] for h in history] == [4, 3, 2, 1]
    assert [h["operation"] for h in history] == ["COMPACT", "APPEND", "APPEND", "APPEND"]
    assert [h["rows_added"] for h in history][1:] == [2, 2, 2]
    assert lake.sql("describe history db.t limit 2").column("version").to_pylist() == [4, 3]
    with pytest.raises(NotFound, match="did you mean 't'"):
        lake.sql("describe history db.tt")


def test_a_table_like_another_one(lake) -> None:
    lake.sql(
        "create table db.t (id int, v string default 'x' comment 'the value', primary key (id)) comment 'all' "
        "tblproperties ('bucket' = '2', 'log-store.enabled' = 'true')"
    )
    lake.sql("create table db.u like db.t tblproperties ('bucket' = '3')")
    old, new = (lake.table(f"db.{name}") for name in "tu")
    assert new.schema == old.schema and new.logical.schema.fields == old.logical.schema.fields
    assert new.logical.schema.num_buckets == 3 and new.logical.schema.comment == "all"
    assert new.logical.log.log_id != old.logical.log.log_id
    fill(new, [{"id": 1, "v": "y"}])
    assert old.scan().to_arrow().num_rows == 0 and new.scan().to_arrow().num_rows == 1
