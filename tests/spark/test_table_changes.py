"""Table.update, delete and merge, and what a table shows of itself."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest, InvalidSchema


@pytest.fixture
def table(lake):
    lake.sql("create table db.t (id bigint, name string, n int, primary key (id)) comment 'all <of> them'")
    lake.sql("insert into db.t values (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)")
    return lake.table("db.t")


def rows(table) -> list[tuple]:
    found = table.scan().to_arrow().select(["id", "name", "n"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_update_and_delete(table) -> None:
    table.update({"n": "n + 1", "name": "concat(name, '{!}')"}, where="id > 1")
    assert rows(table) == [(1, "a", 10), (2, "b{!}", 21), (3, "c{!}", 31)]
    table.delete("n = 21")
    table.update({"name": "'x'"})
    assert rows(table) == [(1, "x", 10), (3, "x", 31)]
    table.delete()
    assert rows(table) == []


def test_merge_of_a_frame_of_arrow_rows_and_of_a_query(table, spark) -> None:
    frame = spark.createDataFrame([(1, "A", 1), (4, "D", 4)], "id bigint, name string, n int")
    merge = table.merge(frame, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert rows(table) == [(1, "a", 10), (2, "b", 20), (3, "c", 30)]
    merge.execute()
    assert rows(table) == [(1, "A", 1), (2, "b", 20), (3, "c", 30), (4, "D", 4)]
    arrow = pa.table({"id": [2, 5], "m": [7, 8]})
    (
        table.merge(arrow, "old.id = new.id", alias="old", source_alias="new")
        .whenMatchedUpdate({"n": "old.n + new.m"})
        .whenNotMatchedInsert({"id": "new.id", "n": "new.m"}, condition="new.m > 7")
        .whenNotMatchedBySourceUpdate({"name": "'kept'"}, condition="old.id = 1")
        .whenNotMatchedBySourceDelete("old.id = 4")
        .execute()
    )
    assert rows(table) == [(1, "kept", 1), (2, "b", 27), (3, "c", 30), (5, None, 8)]
    polars = pl.DataFrame({"id": [5]})
    table.merge(polars, "t.id = s.id").whenMatchedDelete().execute()
    table.merge("(select 9L as id, '{x}' as name, 9 as n)", "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert rows(table) == [(1, "kept", 1), (2, "b", 27), (3, "c", 30), (9, "{x}", 9)]
    assert not [view for view in spark.catalog.listTables() if view.name.startswith("lakelog_frame")]


def test_invalid_merges_are_refused(table) -> None:
    with pytest.raises(InvalidRequest, match="whenMatchedUpdateAll"):
        table.merge("db.t", "t.id = s.id").execute()
    with pytest.raises(InvalidRequest, match="int"):
        table.update({"n": 1})
    with pytest.raises(InvalidSchema, match="'m'"):
        table.update({"m": "1"})
    with pytest.raises(InvalidRequest, match="object"):
        table.merge(object(), "t.id = s.id").whenMatchedDelete().execute()


def test_a_branch_is_changed_by_itself(table) -> None:
    table.create_tag("one")
    table.create_branch("dev", "one")
    table.branch("dev").update({"n": "0"}, "id = 1")
    assert rows(table)[0] == (1, "a", 10)
    assert rows(table.branch("dev"))[0] == (1, "a", 0)
