"""What is altered beneath ``lakelog ingest``: columns and tables of the same names, publications; failed starts."""

from __future__ import annotations

import pytest

from lakelog.errors import InvalidRequest, InvalidSchema
from source_database import differences, ingested

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    "alterations",
    [
        ["drop column v", "add column v int"],
        ["drop column b", "add column b int"],
        ["rename v to x", "rename b to v", "rename x to b"],
        ["alter j type jsonb"],
        ["alter c type char(8)"],
    ],
)
def test_another_column_of_the_same_name_replaces_its_values(database, lake, alterations) -> None:
    database.run(
        "create table t (id int primary key, b int, j json, c char(4), v int)",
        """insert into t values (1, 2, '{"b": 1,  "a": 2}', 'x', 7)""",
    )
    ingested(lake, database, "t")
    database.run(*(f"alter table t {change}" for change in alterations), "insert into t values (3)")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []


@pytest.mark.parametrize(
    "alteration",
    [
        "alter v type int using v + 100",
        "alter w type varchar(2)",
        "alter w type text using upper(w)",
        "alter v type int using length(w), alter w type text using v::text",
    ],
)
def test_values_that_an_alteration_computes_anew_are_copied_again(database, lake, alteration) -> None:
    database.run("create table t (id int primary key, v int, w text)", "insert into t values (1, 1, 'ab'), (2, 2, 'c')")
    ingested(lake, database, "t")
    database.run(f"alter table t {alteration}", "insert into t values (3)")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []


@pytest.mark.parametrize("change", ["vacuum full t", "truncate t", "alter table t alter v set statistics 10"])
def test_a_new_file_or_a_setting_alone_does_not_copy_the_table_again(database, lake, change) -> None:
    database.run("create table t (id int primary key, v int)", "insert into t values (1, 1), (2, 2)")
    ingested(lake, database, "t")
    database.run(change, "insert into t values (3)")
    assert "copy" not in {progress.phase for progress in lake.ingest(database.url, ["t"], "db").run(once=True)}
    assert differences(lake, database, "t") == []


def test_a_longer_text_does_not_copy_the_table_again(database, lake) -> None:
    database.run("create table t (id int primary key, v varchar(5))", "insert into t values (1, 'a'), (2, 'b')")
    ingested(lake, database, "t")
    database.run("alter table t alter v type varchar(9)", "alter table t add x int", "insert into t values (3)")
    assert ingested(lake, database, "t") == 1
    assert differences(lake, database, "t") == []


def test_another_table_of_the_same_name_replaces_the_rows(database, lake) -> None:
    create = "create table t (id int primary key, v int)"
    database.run(create, "insert into t values (1, 1)")
    ingested(lake, database, "t")
    database.run(
        "alter table t rename to former", create, "insert into t values (2, 2)", "insert into former values (3)"
    )
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []


def test_a_table_that_left_its_publication_is_copied_again(database, lake) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1)")
    ingested(lake, database, "t")
    publication = lake.ingest(database.url, ["t"], "db").slot_name
    database.run(f"alter publication {publication} drop table t", "insert into t values (2)")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []
    database.run(f"drop publication {publication}", "insert into t values (3)")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []
    assert database.slots() == [publication]


@pytest.mark.parametrize(
    "publication", ["where (id > 1)", "(id)", "with (publish = 'insert')", "with (publish_via_partition_root = true)"]
)
def test_a_publication_that_hides_changes_is_refused(database, lake, publication) -> None:
    database.run("create table t (id int primary key, v int)", f"create publication p for table t {publication}")
    with pytest.raises(InvalidRequest, match="does not publish all changes"):
        list(lake.ingest(database.url, ["t"], "db", publication="p").run(once=True))
    assert database.slots() == [] and not lake.table_exists("db.t")


@pytest.mark.parametrize("hides", ["alter table t enable row level security", "revoke select on t from {}"])
def test_rows_that_the_user_may_not_read_are_not_left_out(database, lake, hides) -> None:
    role = f"some_{database.name}"
    database.run(
        "create table t (id int primary key)",
        f"create role {role} login replication password 'p'",
        f"grant select on t to {role}",
        "create policy few on t using (id = 1)",
        "insert into t values (1), (2)",
        "create publication mine for table t",
        hides.format(role),
    )
    url = database.url.replace("lake-user:lake-hush", f"{role}:p")
    with pytest.raises(InvalidRequest, match="SELECT"):
        list(lake.ingest(url, ["t"], "db", publication="mine").run(once=True))
    assert database.slots() == []


def test_a_first_copy_that_fails_leaves_no_slot(database, lake) -> None:
    database.run("create table t (id int primary key, d date)", "insert into t values (1, 'infinity')")
    with pytest.raises(InvalidSchema, match="infinity"):
        ingested(lake, database, "t")
    assert database.slots() == []
    with database.connect() as connection:
        assert connection.execute("select pubname from pg_publication").fetchall() == []


def test_a_first_copy_that_is_ended_leaves_no_slot(database, lake) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1)")
    run = iter(lake.ingest(database.url, ["t"], "db").run())
    assert next(run).phase == "copy"
    run.close()
    assert database.slots() == []


def test_two_first_copies_do_not_remove_rows_of_each_other(database, lake) -> None:
    database.run("create table t (v int)", "alter table t replica identity full", "insert into t values (1), (2)")
    plan = lake.ingest(database.url, ["t"], "db")
    late = iter(plan.run(once=True))
    assert next(late).phase == "copy"  # its snapshot is open, and its copy begins
    early = iter(plan.run(once=True))
    waiting = next(early)
    assert (waiting.phase, "another process copies" in waiting.why) == ("wait", True)
    list(late)
    list(early)
    assert differences(lake, database, "t") == []


def test_arrays_with_another_delimiter_are_text(database, lake) -> None:
    database.run("create table t (id int primary key, b box[])")
    database.run("insert into t values (1, array['((1,1),(0,0))'::box, '((2,2),(1,1))'::box])")
    ingested(lake, database, "t")
    assert lake.table("db.t").scan().to_arrow()["b"].to_pylist() == ["{(1,1),(0,0);(2,2),(1,1)}"]
