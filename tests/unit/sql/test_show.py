"""SHOW and DESCRIBE of what tables on disk have."""

from __future__ import annotations

import pickle

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
    table.write(pa.Table.from_pylist(rows, schema=table.schema))


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


@pytest.mark.parametrize(
    ("statement", "column", "value"),
    [
        ("show tables in db", "tableName", "t"),
        ("show databases", "namespace", "db"),
        ("show create table db.t", "createtab_stmt", "PARTITIONED BY"),
        ("show partitions db.t", "partition", "p=1"),
        ("show tblproperties db.t", "key", "bucket"),
        ("describe db.t", "col_name", "id"),
        ("describe detail db.t", "name", "db.t"),
    ],
)
def test_the_rows_of_every_statement_are_read_like_those_of_a_query(
    lake, statement: str, column: str, value: str
) -> None:
    lake.sql("create table db.t (id int, p int) partitioned by (p) with ('bucket' = '-1')")
    lake.write(pa.table({"id": pa.array([1], pa.int32()), "p": pa.array([1], pa.int32())}), "db.t")
    result = lake.sql(statement)
    rows = result.collect()
    assert any(value in str(row[column]) and getattr(row, column) == row.asDict()[column] for row in rows)
    assert (result.count(), result.take(1), result.first(), result.head()) == (len(rows), rows[:1], rows[0], rows[0])
    assert (list(result.toLocalIterator()), result.isEmpty(), rows[0]) == (rows, False, tuple(rows[0]))
    assert pickle.loads(pickle.dumps(rows)) == rows and column in repr(rows[0])


def test_a_statement_without_rows_has_none(lake) -> None:
    done = lake.sql("create table db.t (id int)")
    assert (done.collect(), done.first(), done.count(), done.isEmpty()) == ([], None, 0, True)
