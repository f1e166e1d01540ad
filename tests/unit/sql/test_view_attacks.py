"""Materialized views where two features meet: the rows are those of the query, or the reason is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidOption, InvalidRequest, InvalidSchema, LakelogError, NotFound, UnsupportedFeature
from lakelog.lake import Lake

Row = dict[str, Any]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = lakelog.connect(str(tmp_path))
    lake.sql("create table db.a (id int, n int, g string, primary key (id))")
    return lake


def write(lake: Lake, name: str, *rows: Row, kind: str = "+I") -> None:
    schema = pa.schema([(field.name, field.type) for field in lake.table(name).schema])
    table = pa.Table.from_pylist(list(rows), schema=schema)
    lake.write(table.append_column("_row_kind", pa.array([kind] * len(rows))), name)


def rows(lake: Lake, name: str, *columns: str) -> list[tuple[Any, ...]]:
    found = lake.table(name).scan(columns or None).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


@pytest.fixture
def three(lake: Lake) -> Lake:
    lake.sql("create table db.b (id int, v int, primary key (id))")
    lake.sql("create table db.c (id int, y int, primary key (id))")
    write(lake, "db.a", {"id": 1, "n": 10, "g": "x"})
    write(lake, "db.b", {"id": 10, "v": 5})
    write(lake, "db.c", {"id": 100, "y": 0}, {"id": 101, "y": 5})
    return lake


def test_the_null_of_a_left_join_finds_rows_of_a_later_join(three: Lake) -> None:
    joined = "from db.a left join db.b on b.id = a.n join db.c on coalesce(b.v, 0) = c.y"
    three.sql(f"create materialized view db.w as select a.id, c.id as c_id {joined}")
    three.sql(f"create materialized view db.groups as select c.id, count(*) as k {joined} group by c.id")
    for kind, expected in (("-D", 100), ("+I", 101)):
        write(three, "db.b", {"id": 10, "v": 5}, kind=kind)
        three.views.refresh("db.w")
        three.views.refresh("db.groups")
        assert rows(three, "db.w") == [(1, expected)]
        assert rows(three, "db.groups") == [(expected, 1)]


def test_the_null_of_a_left_join_finds_rows_of_a_later_join_by_another_left_join(three: Lake) -> None:
    three.sql("create table db.d (id int, z int, primary key (id))")
    write(three, "db.d", {"id": 10, "z": 0})
    three.sql("create materialized view db.w as select a.id, c.id as c_id from db.a left join db.b on b.id = a.n "
              "left join db.d on d.id = a.n and d.z = coalesce(b.v, 0) join db.c on c.y = d.z")  # fmt: skip
    write(three, "db.b", {"id": 10, "v": 5}, kind="-D")
    three.views.refresh("db.w")
    assert rows(three, "db.w") == [(1, 100)]


def test_a_join_over_an_equal_column_of_a_left_join_still_computes_only_touched_keys(three: Lake) -> None:
    three.sql("create materialized view db.w as select a.id, c.id as c_id from db.a left join db.b on b.id = a.n "
              "join db.c on b.v = c.y")  # fmt: skip
    assert "the rows whose key it touches" in three.views.explain("db.w")
    write(three, "db.b", {"id": 10, "v": 5}, kind="-D")
    three.views.refresh("db.w")
    assert rows(three, "db.w") == []


def test_distinct_groups_are_refreshed(lake: Lake) -> None:
    write(lake, "db.a", {"id": 1, "n": 10, "g": "x"})
    lake.sql("create materialized view db.w as select distinct n, count(*) as k from db.a group by n")
    write(lake, "db.a", {"id": 2, "n": 10, "g": "y"})
    lake.views.refresh("db.w")
    assert rows(lake, "db.w", "n", "k") == [(10, 2)]


@pytest.mark.parametrize("column", ["times", "number", "place", "rowid", "ROWID"])
def test_a_source_without_a_key_may_call_its_columns_so(lake: Lake, column: str) -> None:
    lake.sql(f"create table db.e (k string, {column} int)")
    write(lake, "db.e", *({"k": k, column: v} for k, v in (("a", 1), ("a", 1), ("a", 1), ("b", 7), ("b", 0))))
    lake.sql(f"create materialized view db.w as select k, {column} as c, count(*) as n from db.e group by k, {column}")
    lake.sql("delete from db.e where k = 'b'")
    lake.views.refresh("db.w")
    assert rows(lake, "db.w", "k", "c", "n") == [("a", 1, 3)]
    schema = pa.schema([("k", pa.string()), (column, pa.int32())])
    lake.write(pa.Table.from_pylist([{"k": "a", column: 1}], schema=schema), "db.e", overwrite=True)
    # the refresher of a service keeps the rows of the source from one refresh to the next
    lake.views.refresh("db.w")
    assert rows(lake, "db.w", "k", "c", "n") == [("a", 1, 1)]


def test_a_common_table_expression_never_hides_a_source(lake: Lake) -> None:
    lake.sql("create table db.b (id int, n int, primary key (id))")
    with pytest.raises(UnsupportedFeature, match="source_0"):
        lake.sql("create materialized view db.w as with source_0 as (select id, n from db.b where n > 1) "
                 "select a.id, a.n, source_0.n as m from db.a join source_0 on a.id = source_0.id")  # fmt: skip


def test_names_of_columns_with_letters_that_duckdb_does_not_fold(lake: Lake) -> None:
    write(lake, "db.a", {"id": 1, "n": 10, "g": "x"})
    lake.sql("create materialized view db.w as select id as `Ünï`, n as `Ä` from db.a")
    write(lake, "db.a", {"id": 2, "n": 20, "g": "y"})
    lake.views.refresh("db.w")
    assert rows(lake, "db.w", "Ünï", "Ä") == [(1, 10), (2, 20)]


def test_the_number_of_the_branch_is_not_taken_from_a_column(lake: Lake) -> None:
    with pytest.raises(UnsupportedFeature, match="lakelog_branch"):
        lake.sql("create materialized view db.w as select id, g as lakelog_branch from db.a union all "
                 "select id, g from db.a")  # fmt: skip


def test_an_error_of_a_write_is_not_hidden(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql("create materialized view db.w as select id, n from db.a")
    write(lake, "db.a", {"id": 1, "n": 10, "g": "x"})

    def full(*_: object) -> None:
        raise InvalidSchema("the disk of the view is full")

    with monkeypatch.context() as patch:
        patch.setattr("lakelog.table.staging.task_writer.TaskWriter.write", full)
        with pytest.raises(InvalidSchema, match="disk of the view"):
            lake.views.refresh("db.w")
    lake.views.refresh("db.w")
    assert rows(lake, "db.w") == [(1, 10)]


OPTIONS = (
    "'merge-engine' = 'first-row'",
    "'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum'",
    "'ignore-delete' = 'true'",
    "'deduplicate.ignore-delete' = 'true'",
    "'sequence.field' = 'n'",
    "'rowkind.field' = 'g'",
    "'record-level.expire-time' = '1 s', 'record-level.time-field' = 'n'",
    "'scan.snapshot-id' = '1'",
    "'emit.mode' = 'log'",
    "'emit.mode' = 'file'",
)


@pytest.mark.parametrize("options", OPTIONS)
def test_an_option_with_which_a_view_would_have_other_rows_is_refused(lake: Lake, options: str) -> None:
    with pytest.raises(InvalidOption, match="materialized view"):
        lake.sql(f"create materialized view db.w with ({options}) as select id, n, g from db.a")
    assert not lake.table_exists("db.w")


CHANGES = (
    "alter table db.w add column x int",
    "alter table db.w drop column n",
    "alter table db.w rename column n to m",
    "alter table db.w alter column n type bigint",
    "alter table db.w set tblproperties ('ignore-delete' = 'true')",
    "alter table db.w set tblproperties ('materialized-view' = '{}')",
    "alter table db.w unset tblproperties ('materialized-view')",
    "drop table db.w",
    "create or replace table db.w (id int, primary key (id))",
    "create or replace materialized view db.w as select nonsense from db.a",
    "create or replace materialized view db.w as select id from db.w",
)


@pytest.mark.parametrize("statement", CHANGES)
def test_a_refused_change_of_a_view_leaves_it_as_it_was(lake: Lake, statement: str) -> None:
    lake.sql("create materialized view db.w as select id, n from db.a")
    with pytest.raises((UnsupportedFeature, InvalidRequest)):
        lake.sql(statement)
    write(lake, "db.a", {"id": 1, "n": 10, "g": "x"})
    lake.views.refresh("db.w")
    assert rows(lake, "db.w") == [(1, 10)]


def test_a_replaced_view_stays_until_the_new_one_has_its_rows(lake: Lake) -> None:
    write(lake, "db.a", {"id": 1, "n": 10, "g": "x"})
    lake.sql("create materialized view db.w as select id, n from db.a")
    with pytest.raises(LakelogError, match="zero"):
        lake.sql("create or replace materialized view db.w as select id, n / (n - 10) as q from db.a")
    assert rows(lake, "db.w") == [(1, 10)]
    assert lake.list_tables("db") == ["db.a", "db.w"]
    lake.sql("create or replace materialized view db.w as select g, count(*) as number from db.a group by g")
    assert rows(lake, "db.w", "g", "number") == [("x", 1)]
    write(lake, "db.a", {"id": 2, "n": 10, "g": "x"})
    lake.views.refresh("db.w")
    assert rows(lake, "db.w", "g", "number") == [("x", 2)]
    assert [finding.kind for finding in lake.health("db.a").findings] == []
    assert lake.list_tables("db") == ["db.a", "db.w"]


def test_what_a_view_may_have_changed(lake: Lake) -> None:
    lake.sql("create materialized view db.w as select id, n from db.a")
    lake.sql("alter table db.w alter column n comment 'amount'")
    lake.sql("alter table db.w set tblproperties ('snapshot.num-retained.min' = '3')")
    lake.sql("alter materialized view db.w refresh every 2 minutes")
    lake.sql("alter table db.w rename to db.x")
    write(lake, "db.a", {"id": 1, "n": 10, "g": "x"})
    lake.views.refresh("db.x")
    assert rows(lake, "db.x") == [(1, 10)]
    with pytest.raises(InvalidRequest, match="DROP MATERIALIZED VIEW"):
        lake.drop_table("db.x")


def test_a_table_like_a_view_is_a_table(lake: Lake) -> None:
    lake.sql("create materialized view db.w as select id, n from db.a")
    lake.sql("create table db.copy like db.w")
    lake.sql("insert into db.copy values (1, 2)")
    assert rows(lake, "db.copy") == [(1, 2)] and lake.views.list() == ["db.w"]


def test_a_table_does_not_become_a_view_by_an_option(lake: Lake) -> None:
    lake.sql("create materialized view db.w as select id, n from db.a")
    text = lake.table("db.w").logical.schema.options["materialized-view"].replace("'", "''")
    with pytest.raises(UnsupportedFeature, match="CREATE MATERIALIZED VIEW"):
        lake.sql(f"alter table db.a set tblproperties ('materialized-view' = '{text}')")


def test_columns_of_sources_with_letters_that_duckdb_does_not_fold(lake: Lake) -> None:
    lake.sql("create table db.t (`Öl` int, `Ä` string, primary key (`Öl`))")
    lake.sql("create materialized view db.w as select `Öl`, `Ä` as x from db.t where `öl` > 1")
    lake.sql("create materialized view db.groups as select `ä`, count(*) as c from db.t t group by `Ä`")
    write(lake, "db.t", {"Öl": 1, "Ä": "x"}, {"Öl": 2, "Ä": "x"})
    lake.views.refresh("db.w")
    lake.views.refresh("db.groups")
    assert rows(lake, "db.w") == [(2, "x")]
    assert [row[1] for row in rows(lake, "db.groups")] == [2]


def edit(lake: Lake, view: str, **changes: object) -> None:
    """Changes the definition of a view in its schema file, by hand."""
    folder = Path(lake.table(view).logical.path.removeprefix("file://")) / "schema"
    path = max(folder.glob("schema-*"), key=lambda found: int(found.name.rpartition("-")[2]))
    schema = json.loads(path.read_text())
    definition = json.loads(schema["options"]["materialized-view"]) | changes
    path.write_text(json.dumps(schema | {"options": schema["options"] | {"materialized-view": json.dumps(definition)}}))


@pytest.mark.parametrize("zone", ["UTC'; SET memory_limit = '9GB", "Mars/Base", "+02:00"])
def test_a_time_zone_is_a_name_and_no_statement(lake: Lake, zone: str) -> None:
    lake.sql("create materialized view db.w as select id, n from db.a")
    edit(lake, "db.w", zone=zone)
    write(lake, "db.a", {"id": 1, "n": 10, "g": "x"})
    with pytest.raises(InvalidRequest, match="time zone"):
        lake.views.refresh("db.w")


@pytest.mark.parametrize("query", ["select content as id, 1 as n from read_text('/etc/hosts')",
                                   "select id, n from '/etc/hosts'", "drop table db.a", "select id, n"])  # fmt: skip
def test_a_query_that_was_edited_by_hand_reads_only_tables(lake: Lake, query: str) -> None:
    lake.sql("create materialized view db.w as select id, n from db.a")
    edit(lake, "db.w", query=query)
    with pytest.raises((UnsupportedFeature, InvalidRequest, NotFound)):
        lake.views.refresh("db.w")
    assert lake.table_exists("db.a")


def test_a_damaged_view_does_not_stop_the_others_and_can_be_dropped(lake: Lake) -> None:
    lake.sql("create materialized view db.w as select id, n from db.a")
    lake.sql("create materialized view db.x as select id, g from db.a")
    edit(lake, "db.w", query=5)
    assert lake.views.list() == ["db.x"]
    lake.sql("drop table db.w")
    assert not lake.table_exists("db.w")


def test_views_that_name_each_other_after_renames_are_still_listed(lake: Lake) -> None:
    lake.sql("create materialized view db.v1 as select id from db.a")
    lake.sql("create materialized view db.v2 as select id from db.v1")
    lake.sql("alter table db.v1 rename to db.v0")
    lake.sql("create materialized view db.v1 as select id from db.v2")
    assert sorted(lake.views.ordered()) == ["db.v0", "db.v1", "db.v2"]
    with pytest.raises(InvalidRequest, match="dropped and created again"):
        lake.views.refresh("db.v2")


@pytest.mark.parametrize("function", ["current_schema()", "input_file_block_start()"])
def test_a_function_that_changes_by_itself_is_refused_by_name(lake: Lake, function: str) -> None:
    with pytest.raises(UnsupportedFeature, match=function.removesuffix("()")):
        lake.sql(f"create materialized view db.w as select id, {function} as x from db.a")
