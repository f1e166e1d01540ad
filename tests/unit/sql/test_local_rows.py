"""Statements on rows without Spark: INSERT … VALUES, UPDATE, DELETE, MERGE and simple SELECTs, by Arrow alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake
from lakelog.errors import InvalidSchema, NotInstalled
from lakelog.paimon.types.arrow import arrow_schema

_COLUMNS = (
    "(id bigint not null, name string, n int, x double, price decimal(10, 2), day date, at timestamp_ntz, ok boolean)"
)
_ROWS = (
    "insert into db.t values (1, 'a', 10, 1.5, 1.25, date'2024-01-01', '2024-01-01 10:00:00', true), "
    "(2, 'b', -20, 2, -3, date'2024-01-02', null, false), (3, null, null, null, null, null, null, null)"
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    with lakelog.connect(tmp_path / "warehouse") as opened:
        yield opened
        assert not opened._engine.is_started


@pytest.fixture(params=["keyed", "keyed with a log", "without a key", "without a key, several files"])
def filled(request: pytest.FixtureRequest, lake: Lake) -> Lake:
    keyed = request.param.startswith("keyed")
    options = {"bucket": 2, "log-store.enabled": request.param.endswith("log")} if keyed else {"bucket": -1}
    key = "'primary-key' = 'id', " if keyed else ""
    given = ", ".join(f"'{k}' = '{str(v).lower()}'" for k, v in options.items())
    lake.sql(f"create table db.t {_COLUMNS} tblproperties ({key}{given})")
    if request.param.endswith("files"):
        for line in _ROWS.removeprefix("insert into db.t values ").split("), ("):
            lake.sql(f"insert into db.t values ({line.strip('()')})")
    else:
        lake.sql(_ROWS)
    return lake


def rows(lake: Lake, columns: str = "id, name, n", where: str = "") -> list[tuple]:
    found = lake.sql(f"select {columns} from db.t {where}").to_polars().rows()
    return sorted(found, key=lambda row: row[0])


def test_literals_are_inserted_with_the_types_of_the_columns(filled: Lake) -> None:
    found = filled.table("db.t").scan(filter="id = 1").to_polars().rows()
    assert [str(value) for value in found[0]] == [
        "1", "a", "10", "1.5", "1.25", "2024-01-01", "2024-01-01 10:00:00", "True",
    ]  # fmt: skip
    filled.sql("insert into db.t (name, id) values ('c', 4)")
    assert rows(filled) == [(1, "a", 10), (2, "b", -20), (3, None, None), (4, "c", None)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 2", [2]),
        ("t.id >= 2 and name is not null", [2]),
        ("not (n > 0)", [2]),
        ("n in (10, -20) and day between '2024-01-02' and date'2024-02-01'", [2]),
        ("name like 'b%' or x = 1.5", [1, 2]),
        ("price < 0", [2]),
        ("ok", [1]),
        ("at = '2024-01-01 10:00:00'", [1]),
    ],
)
def test_a_select_has_columns_a_condition_and_a_limit(filled: Lake, where: str, expected: list[int]) -> None:
    found = filled.sql(f"select id as key, * from db.t where {where}").to_arrow()
    assert sorted(found["key"].to_pylist()) == expected
    assert found.column_names == ["key", "id", "name", "n", "x", "price", "day", "at", "ok"]
    assert filled.sql("select id from db.t limit 2").to_arrow().num_rows == 2


def test_rows_are_updated_and_deleted(filled: Lake) -> None:
    table = filled.table("db.t")
    table.update({"name": "'new'", "n": "7", "price": "2.5"}, "id >= 2")
    assert rows(filled, "id, name, n, cast_free".replace(", cast_free", "")) == [
        (1, "a", 10),
        (2, "new", 7),
        (3, "new", 7),
    ]
    filled.sql("update db.t as u set name = null, n = u.n where u.n = 10")
    assert rows(filled) == [(1, None, 10), (2, "new", 7), (3, "new", 7)]
    table.delete("name = 'new' and id = 2")
    assert rows(filled) == [(1, None, 10), (3, "new", 7)]
    table.delete("id = 99")
    filled.sql("delete from db.t")
    assert rows(filled) == []


def test_the_log_contains_the_changes(lake: Lake) -> None:
    lake.create_table(
        "db.t",
        {"id": "bigint", "n": "int"},
        primary_key="id",
        options={"log-store.enabled": True, "log.changelog-mode": "all", "bucket": 1},
    )
    lake.sql("insert into db.t values (1, 10), (2, -20), (3, null)")
    lake.table("db.t").update({"n": "1"}, "id = 1")
    lake.table("db.t").delete("id = 2")
    changes = pl.concat(pl.DataFrame(batch) for batch in lake.table("db.t").tail("earliest", stop="latest"))
    told = changes.select("id", "n", "_row_kind").rows()[3:]
    assert told == [(1, 10, "-D"), (1, 1, "+I"), (2, -20, "-D")]


@pytest.mark.parametrize("log", [True, False])
def test_arrow_rows_are_merged_by_the_primary_key(lake: Lake, log: bool) -> None:
    lake.sql(
        f"create table db.t {_COLUMNS} tblproperties ('primary-key' = 'id', 'log-store.enabled' = '{str(log).lower()}')"
    )
    lake.sql(_ROWS)
    table = lake.table("db.t")
    new = pl.DataFrame({"id": [2, 4], "name": ["B", "D"], "n": [1, 2]}, schema_overrides={"n": pl.Int32})
    (
        table.merge(new, "t.id = s.id")
        .whenMatchedUpdate({"name": "s.name", "n": "5"})
        .whenNotMatchedInsert({"id": "s.id", "name": "s.name"})
        .execute()
    )
    assert rows(lake) == [(1, "a", 10), (2, "B", 5), (3, None, None), (4, "D", None)]
    assert rows(lake, "id, ok", "where id = 2") == [(2, False)]
    table.merge(pa.table({"id": [1, 9]}), "s.id = t.id").whenMatchedDelete().execute()
    assert [row[0] for row in rows(lake)] == [2, 3, 4]
    whole = table.scan(filter="id = 2").to_arrow().set_column(1, "name", pa.array(["all"]))
    table.merge(whole, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(lake) == [(2, "all", 5), (3, None, None), (4, "D", None)]


@pytest.mark.parametrize(
    "statement",
    [
        "select id from db.t where name = 1",
        "update db.t set n = n + 1",
        "update db.t set n = 1.5",
        "update db.t set n = '5'",
        "update db.t set name = 5",
        "update db.t set id = 5 where id = 1",
        "update db.t set n = cast(1.5 as int)",
        "delete from db.t where length(name) = 1",
        "insert into db.t (id, n) values (7, 1 + 1)",
        "insert into db.t (id, n) values (7, 3000000000)",
        "insert into db.t (id, day) values (7, '20240131')",
        "insert overwrite db.t values (1, 'a', 1, 1, 1, null, null, true)",
        "merge into db.t using (select 1 as id) s on t.id = s.id when matched then delete",
    ],
)
def test_whatever_is_not_certain_to_mean_the_same_needs_java_and_changes_nothing(lake: Lake, statement: str) -> None:
    lake.sql(f"create table db.t {_COLUMNS} tblproperties ('primary-key' = 'id', 'bucket' = '1')")
    lake.sql(_ROWS)
    before = rows(lake)
    with pytest.raises(NotInstalled, match=r"Spark needs Java 17 or newer.*Run: "):
        lake.sql(statement)
    assert rows(lake) == before


@pytest.mark.parametrize(
    "merge",
    [
        lambda t: t.merge(pa.table({"id": [1, 1]}), "t.id = s.id").whenMatchedDelete(),
        lambda t: t.merge(pa.table({"id": [1, None]}), "t.id = s.id").whenMatchedDelete(),
        lambda t: t.merge(pa.table({"id": [1.0]}), "t.id = s.id").whenMatchedDelete(),
        lambda t: t.merge(pa.table({"id": [1], "n": [2**40]}), "t.id = s.id").whenMatchedUpdate({"n": "s.n"}),
        lambda t: t.merge(pa.table({"id": [1]}), "t.id = s.id").whenMatchedUpdate({"id": "9"}),
        lambda t: t.merge(pa.table({"id": [1]}), "t.id = s.id and t.n > 3").whenMatchedDelete(),
        lambda t: t.merge(pa.table({"n": [1]}), "t.n = s.n").whenMatchedDelete(),
        lambda t: t.merge(pa.table({"id": [1]}), "t.id = s.id").whenMatchedDelete("t.n > 3"),
        lambda t: t.merge(pa.table({"id": [1]}), "t.id = s.id").whenNotMatchedBySourceDelete(),
    ],
)
def test_a_merge_that_is_not_certain_to_mean_the_same_needs_java(lake: Lake, merge) -> None:
    lake.sql(f"create table db.t {_COLUMNS} tblproperties ('primary-key' = 'id', 'bucket' = '1')")
    lake.sql(_ROWS)
    before = rows(lake)
    with pytest.raises(NotInstalled):
        merge(lake.table("db.t")).execute()
    assert rows(lake) == before


def test_null_in_rows_that_stay_is_not_replaced_by_a_default(lake: Lake) -> None:
    lake.sql("create table db.t (id bigint, n int, name string)")
    lake.sql("insert into db.t values (1, null, 'a'), (2, null, 'b')")
    lake.sql("alter table db.t alter column n set default 5")
    lake.sql("update db.t set name = 'c' where id = 1")
    assert rows(lake) == [(1, "c", None), (2, "b", None)]
    lake.sql("delete from db.t where id = 1")
    assert rows(lake) == [(2, "b", None)]


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_a_default_is_for_columns_without_a_value_and_for_the_word(lake: Lake, key: str) -> None:
    lake.sql(f"create table db.t (id bigint, n int default 7, name string default 'no''ne'{key})")
    lake.sql("insert into db.t values (1, default, default), (2, null, 'x'), (3, DEFAULT, null)")
    lake.sql("insert into db.t (name, id) values (default, 4); update db.t set n = null where id = 1")
    lake.sql("update db.t set name = 'y' where id = 2")
    assert rows(lake) == [(1, "no'ne", None), (2, "y", None), (3, None, 7), (4, "no'ne", 7)]


def test_an_unknown_column_is_the_error_that_it_is(lake: Lake) -> None:
    lake.sql(f"create table db.t {_COLUMNS}")
    with pytest.raises(InvalidSchema, match="'idd'"):
        lake.sql("insert into db.t (idd) values (1)")


def test_explain_names_the_command_and_no_parser_warns(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.sql(f"create table db.t {_COLUMNS}")
    plan = lake.sql("explain select id from db.t where id > 1")
    assert "db.t" in str(plan.to_pylist())
    assert caplog.messages == []


@pytest.mark.parametrize("kind", ["struct<a: int, b: string>", "array<struct<a: int>>", "map<string, int>"])
def test_rows_with_nested_values_are_merged(lake: Lake, kind: str) -> None:
    lake.sql(f"create table db.t (id int, v {kind}, primary key (id)) tblproperties ('bucket' = '1')")
    values = {"s": {"a": 1, "b": "x"}, "a": [{"a": 1}], "m": [("x", 1)]}
    table, target = lake.table("db.t"), lake.table("db.t").logical.schema
    for ids in ([1, 2], [2, 3]):
        given = pa.Table.from_pydict({"id": ids, "v": [values[kind[0]]] * 2}, arrow_schema(target.fields))
        table.merge(given, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [1, 2, 3]
    other = pa.table({"id": pa.array([4], pa.int32()), "v": ["text"]})
    with pytest.raises(NotInstalled):
        table.merge(other, "t.id = s.id").when_not_matched_insert_all().execute()


def test_digits_that_a_time_does_not_have_are_not_cut(lake: Lake) -> None:
    lake.sql("create table db.m (id int, at timestamp(3))")
    for text in ("2024-01-01 10:00:00.1234", "2024-01-01 10:00:00.000001"):
        with pytest.raises(NotInstalled):
            lake.sql(f"insert into db.m values (1, '{text}')")
    lake.sql("insert into db.m values (1, '2024-01-01 10:00:00.123')")
    assert lake.table("db.m").count() == 1
