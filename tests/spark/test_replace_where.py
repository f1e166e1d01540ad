"""INSERT INTO … REPLACE WHERE on Spark, and DEFAULT, on tables of every kind."""

from __future__ import annotations

import pytest
from pyspark.errors import SparkRuntimeException

from lakelog.errors import InvalidSchema

KEYED = ", primary key (id)"
KINDS = {
    "keyed": (KEYED, "", "'bucket' = '2'"),
    "logged": (KEYED, "", "'bucket' = '1', 'log-store.enabled' = 'true', 'log.changelog-mode' = 'all'"),
    "vectors": (KEYED, "", "'bucket' = '1', 'deletion-vectors.enabled' = 'true'"),
    "rows": ("", "", "'bucket' = '-1'"),
    "partitioned": ("", "partitioned by (n)", "'bucket' = '-1'"),
}


def content(lake) -> list[tuple]:
    return sorted((tuple(row) for row in lake.sql("select id, v, n from db.t").collect()), key=repr)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_match_the_condition_are_replaced_in_one_commit(lake, kind) -> None:
    key, partitions, options = KINDS[kind]
    lake.sql(f"create table db.t (id int, v string, n int{key}) using lakelog {partitions} tblproperties ({options})")
    lake.sql("insert into db.t values (1, 'a', 1), (2, 'b', 1), (3, 'c', 2), (4, null, null)")
    before = lake.table("db.t").latest_snapshot().id
    query = "select id, concat(v, 'x'), 1 from db.t where id = 2 union all select 9, 'z', 1"
    lake.sql(f"insert into db.t replace where n = 1 and t.id in (1, 2, 9) {query}")
    assert content(lake) == [(2, "bx", 1), (3, "c", 2), (4, None, None), (9, "z", 1)]
    after = lake.table("db.t").latest_snapshot().id
    assert kind in ("vectors", "keyed") or after == before + 1  # these compact by themselves
    lake.sql("insert into db.t replace where n = 7 values (7, 'new', 7)")
    lake.sql("insert into db.t (id, n) replace where n is null values (5, null)")
    assert content(lake) == [(2, "bx", 1), (3, "c", 2), (5, None, None), (7, "new", 7), (9, "z", 1)]
    if kind == "logged":
        net: dict[tuple, int] = {}
        for batch in lake.table("db.t").tail("earliest", stop="latest"):
            for row in batch.to_pylist():
                told = (row["id"], row["v"], row["n"])
                net[told] = net.get(told, 0) + (1 if row["_row_kind"] in ("+I", "+U") else -1)
        assert sorted((row for row, count in net.items() if count), key=repr) == content(lake)


@pytest.mark.parametrize("key", ["", KEYED])
def test_a_new_row_that_does_not_meet_the_condition_changes_nothing(lake, key) -> None:
    lake.sql(f"create table db.t (id int, v string, n int{key}) using lakelog")
    lake.sql("insert into db.t values (1, 'a', 1)")
    for bad in ("(1, 'b', 1), (2, 'x', 5)", "(2, 'x', null)"):
        with pytest.raises(SparkRuntimeException, match="a new row does not meet the condition"):
            lake.sql(f"insert into db.t replace where n = 1 values {bad}")
    assert content(lake) == [(1, "a", 1)]
    with pytest.raises(InvalidSchema, match="no column 'w'"):
        lake.sql("insert into db.t by name replace where n = 1 select 1 as id, 1 as w")


def test_a_sequence_field_may_not_go_back(lake) -> None:
    lake.sql("create table db.t (id int, v string, n int, primary key (id)) using lakelog "
             "tblproperties ('sequence.field' = 'n')")  # fmt: skip
    lake.sql("insert into db.t values (1, 'a', 10), (2, 'b', 10)")
    lake.sql("insert into db.t replace where id < 3 values (1, 'new', 11), (1, 'mid', 10)")
    assert content(lake) == [(1, "new", 11)]
    with pytest.raises(SparkRuntimeException, match="'n', which orders the rows of a key, to an older value"):
        lake.sql("insert into db.t replace where id < 3 values (1, 'old', 5)")
    assert content(lake) == [(1, "new", 11)]


@pytest.mark.parametrize("key", ["", KEYED])
def test_default_is_a_value(lake, key) -> None:
    lake.sql(f"create table db.t (id int, v string default 'none', n int default 7{key}) using lakelog")
    lake.sql("insert into db.t values (1, default, 1), (2, 'b', default)")
    lake.sql("update db.t set v = default, n = n + 1 where id = 2")
    assert content(lake) == [(1, "none", 1), (2, "none", 8)]
    lake.sql("insert into db.t (id, v) replace where id = 1 values (1, 'x')")
    lake.sql("merge into db.t using (values (2), (3)) s(id) on t.id = s.id when matched then update set n = default "
             "when not matched then insert (id, v) values (s.id, default)")  # fmt: skip
    assert content(lake) == [(1, "x", 7), (2, "none", 7), (3, "none", 7)]


@pytest.mark.parametrize("key", ["", KEYED])
def test_a_part_of_a_struct_is_set_and_a_merge_brings_columns(lake, key) -> None:
    lake.sql(f"create table db.t (id int, info struct<a: int, deep: struct<x: string, y: int>>{key}) using lakelog")
    lake.sql("insert into db.t values (1, named_struct('a', 1, 'deep', named_struct('x', 'q', 'y', 2))), (2, null)")
    lake.sql("update db.t set info.deep.x = concat(info.deep.x, '!'), info.a = 5L where id = 1")
    lake.sql("update db.t as r set r.info.a = 3 where r.id = 2")
    found = lake.sql("select id, info.a, info.deep.x, info.deep.y from db.t").collect()
    assert sorted(map(tuple, found)) == [(1, 5, "q!", 2), (2, 3, None, None)]
    source = "select 2 as id, 'more' as w union all select 3, 'new'"
    lake.sql(f"merge with schema evolution into db.t using ({source}) s on t.id = s.id "
             "when matched then update set * when not matched then insert *")  # fmt: skip
    lake.sql("insert with schema evolution into db.t by name select 4 as id, 1.5D as z")
    found = lake.sql("select id, info.a, w, z from db.t").collect()
    assert sorted(map(tuple, found)) == [(1, 5, None, None), (2, 3, "more", None), (3, None, "new", None),
                                         (4, None, None, 1.5)]  # fmt: skip
