"""Writers, readers and jobs that know a table from before an ALTER: nothing is lost, nothing is mistaken."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog import Lake
from lakelog.errors import Corrupt, InvalidOption, InvalidRequest, InvalidSchema, TableReplaced, UnsupportedFeature
from lakelog.lake.table import Table
from lakelog.options.option import Options
from lakelog.paimon.schema.changes import (
    AddColumn,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    RemoveOption,
    SchemaChange,
    SetOption,
    after,
)
from lakelog.paimon.types.types import STRING, AtomicType
from lakelog.table.commit.committer import Committer
from lakelog.table.log.register import register_writer
from lakelog.table.staging.task_writer import TaskWriter
from limits import limit

CREATE = "create table db.t (id int, n int, primary key (id)) using lakelog tblproperties ('bucket' = '1'{})"
WITH_LOG = ", 'log-store.enabled' = 'true'"


@pytest.fixture(params=["", WITH_LOG], ids=["files only", "with log"])
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    lake.sql(CREATE.format(request.param))
    return lake.table("db.t")


@pytest.fixture
def logged(lake: Lake) -> Table:
    lake.sql(CREATE.format(WITH_LOG))
    return lake.table("db.t")


def write(table: Table, **columns: list) -> None:
    table.write(pa.table(columns), missing="null")


def read(table: Table) -> list[dict]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda r: r["id"])


def decide(table: Table, epoch: int, **columns: list) -> None:
    """Writes an epoch that is decided but in no snapshot."""
    dynamic = table.logical
    register_writer(dynamic, "w")
    task = TaskWriter(dynamic, "w", epoch, 0)
    task.write(pa.RecordBatch.from_pydict(columns))
    Committer(dynamic, "w").commit(epoch, [task.finish()])


def test_a_handle_sees_its_own_change_and_others_keep_what_they_know(lake: Lake, table: Table) -> None:
    other = lake.table("db.t")
    write(table, id=[1], n=[10])
    table.alter(AddColumn(("s",), STRING, "text", after("id")), ChangeTableComment("t"))
    assert table.schema.names == ["id", "s", "n"]
    assert other.schema.names == ["id", "n"]
    write(table, id=[2], n=[20], s=["b"])
    assert read(table) == [{"id": 1, "s": None, "n": 10}, {"id": 2, "s": "b", "n": 20}]
    assert read(other) == [{"id": 1, "n": 10}, {"id": 2, "n": 20}]
    assert ("s", "string", "text") in table.describe()
    assert "COMMENT 't'" in lake.sql("show create table db.t").to_pylist()[0]["createtab_stmt"]


def test_a_snapshot_names_the_newest_schema_of_any_engine(lake: Lake, table: Table) -> None:
    old = lake.table("db.t")
    table.alter(AddColumn(("s",), STRING))
    table.alter(AddColumn(("t",), STRING))
    write(old, id=[1], n=[10])
    assert old.latest_snapshot().schema_id == 2
    write(old, id=[2], n=[20])
    assert old.latest_snapshot().schema_id == 2


def test_an_old_writer_writes_null_into_new_columns(lake: Lake, table: Table) -> None:
    old = lake.table("db.t")
    write(table, id=[1], n=[10])
    table.alter(AddColumn(("s",), STRING), DropColumn(("n",)))
    write(table, id=[2], s=["b"])
    write(old, id=[1, 3], n=[11, 30])
    assert read(table) == [{"id": 1, "s": None}, {"id": 2, "s": "b"}, {"id": 3, "s": None}]


@pytest.mark.parametrize("keyed", [True, False])
def test_a_compaction_from_before_keeps_the_new_columns(lake: Lake, keyed: bool) -> None:
    lake.sql(CREATE.format("") if keyed else "create table db.t (id int, n int) using lakelog")
    old, new = lake.table("db.t"), lake.table("db.t")
    write(new, id=[1], n=[10])
    new.alter(AddColumn(("s",), STRING))
    write(new, id=[2], n=[20], s=["b"])
    assert old.compact()
    assert read(new) == [{"id": 1, "n": 10, "s": None}, {"id": 2, "n": 20, "s": "b"}]
    assert new.latest_snapshot().commit_kind == "COMPACT"


@pytest.mark.parametrize("inline", [True, False])
def test_a_seal_from_before_keeps_the_new_columns(
    lake: Lake, table: Table, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inline:
        limit(monkeypatch, inline_bytes=0)
    old = lake.table("db.t")
    table.alter(AddColumn(("s",), STRING))
    decide(table, 0, id=[1], n=[10], s=["a"])
    write(lake.table("db.t"), id=[1], n=[11], s=["b"])  # above the waiting rows, which it seals
    decide(table, 1, id=[2], n=[20], s=["c"])
    assert [s.schema_id for s in old.seal()] == [1]
    assert {r["id"]: r["s"] for r in read(table)} == {1: "b", 2: "c"}


def test_a_table_that_was_dropped_or_renamed_takes_no_first_snapshot(lake: Lake) -> None:
    lake.sql(CREATE.format(""))
    old = lake.table("db.t")
    lake.sql("alter table db.t rename to u")
    with pytest.raises(TableReplaced, match=r"dropped or renamed.*open it again"):
        write(old, id=[1], n=[10])
    write(lake.table("db.u"), id=[1], n=[10])
    assert read(lake.table("db.u")) == [{"id": 1, "n": 10}]


def test_an_old_reader_gets_an_error_for_a_dropped_not_null_column(lake: Lake) -> None:
    lake.sql("create table db.t (id int, n int not null, primary key (id)) using lakelog "
             "tblproperties ('log-store.enabled' = 'true')")  # fmt: skip
    old, table = lake.table("db.t"), lake.table("db.t")
    write(table, id=[1], n=[10])
    table.alter(DropColumn(("n",)))
    write(table, id=[2])
    with pytest.raises(InvalidSchema, match="'n' of table db.t is NOT NULL.*Open the table again"):
        list(old.tail("earliest", stop="latest"))


def test_healing_by_a_writer_from_before_restores_the_whole_row(lake: Lake, logged: Table) -> None:
    old = lake.table("db.t")
    logged.alter(AddColumn(("s",), STRING))
    write(logged, id=[1], n=[10], s=["a"])
    with pytest.raises(KeyError), old.writer() as writer:
        writer.write(pa.table({"id": [1], "n": [99]}))
        writer.flush()
        raise KeyError("the writer fails")
    rows = [r for b in logged.tail("earliest", stop="latest") for r in b.to_pylist()]
    assert {k: rows[-1][k] for k in ("id", "n", "s")} == {"id": 1, "n": 10, "s": "a"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            SetOption("log-store.partitions", "3"),
            "'log-store.partitions' cannot be set to '3' for this table: the rows of its log depend on it",
        ),
        (
            SetOption("log-store.topic", "x"),
            "'log-store.topic' cannot be set to 'x' for this table: the rows of its log depend on it",
        ),
        (
            SetOption("log-store.address", "x"),
            "'log-store.address' cannot be set to 'x' for this table: the rows of its log depend on it",
        ),
        (RemoveOption("lakelog.log-id"), "'lakelog.log-id' cannot be reset for this table: it is reserved"),
    ],
)
def test_where_the_log_is_never_changes(logged: Table, change: SchemaChange, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        logged.alter(change)


def test_options_are_checked_and_have_their_canonical_names(table: Table) -> None:
    table.alter(SetOption("mixed-format.emit.mode", "file"), SetOption("snapshot.num-retained.min", "3"))
    assert Options(table.options)["emit.mode"] == "file"
    table.alter(RemoveOption("arctic.emit.mode"))
    assert "emit.mode" not in table.options
    with pytest.raises(InvalidOption, match="unknown option 'snapshot.num-retained.mni'.*did you mean"):
        table.alter(SetOption("snapshot.num-retained.mni", "3"))
    with pytest.raises(InvalidOption, match="not a valid int"):
        table.alter(SetOption("snapshot.num-retained.min", "three"))


def test_a_table_that_lakelog_would_not_write_is_not_made(table: Table) -> None:
    with pytest.raises(InvalidRequest, match="'changelog-producer' = 'full-compaction'"):
        table.alter(SetOption("deletion-vectors.enabled", "true"), SetOption("changelog-producer", "full-compaction"))
    assert "changelog-producer" not in table.options


def test_a_type_that_files_of_any_former_schema_could_not_be_read_as_is_refused(lake: Lake) -> None:
    lake.sql("create table db.t (id int, n int) using lakelog")
    table = lake.table("db.t")
    table.alter(ChangeType(("n",), STRING))
    with pytest.raises(UnsupportedFeature, match=r"'n' was (INT in schema 0|STRING in schema 1), .*as DATE: add a new"):
        table.alter(SetOption("disable-explicit-type-casting", "false"), ChangeType(("n",), AtomicType("DATE")))


@pytest.mark.parametrize(
    "text", ["alter column n type int", "change n n int", "modify n int", "alter column p.x type int"]
)
@pytest.mark.parametrize("log", ["", "tblproperties ('log-store.enabled' = 'true')"])
def test_a_value_that_a_narrower_type_does_not_have_is_never_another_one(lake: Lake, text: str, log: str) -> None:
    lake.sql(f"create table db.t (id int, n bigint, p struct<x: bigint>, primary key (id)) using lakelog {log}")
    rows = [{"id": 1, "n": 2**40 + 5, "p": {"x": 2**40 + 5}}]
    for _ in range(2):  # a compaction has something to merge
        lake.write(pa.Table.from_pylist(rows, pa.schema(lake.table("db.t").schema)), "db.t")
    with pytest.raises(InvalidSchema, match="set 'disable-explicit-type-casting' = 'false'"):
        lake.sql(f"alter table db.t {text}")
    assert read(lake.table("db.t")) == rows
    lake.sql(f"alter table db.t set tblproperties ('disable-explicit-type-casting' = 'false'); alter table db.t {text}")
    table = lake.table("db.t")
    with pytest.raises(InvalidSchema, match="was BIGINT and is INT now, but has a value that does not convert"):
        table.scan().to_arrow()
    if log:
        with pytest.raises(Corrupt, match="offset . of bucket 0"):
            list(table.tail("earliest", stop="latest"))
    with pytest.raises(InvalidSchema, match="but has a value that does not convert"):
        table.compact(full=True)
    lake.sql(f"alter table db.t {text.replace(' int', ' bigint')}")
    assert read(lake.table("db.t")) == rows


def test_a_default_stands_where_a_written_row_lacks_a_column_and_null_stays(lake: Lake, table: Table) -> None:
    write(table, id=[1], n=[None])
    lake.sql("alter table db.t alter column n set default 7")
    new = lake.table("db.t")
    write(new, id=[2])
    write(new, id=[3, 4], n=[None, 5])
    assert [r["n"] for r in read(new)] == [None, 7, None, 5]
    lake.sql("alter table db.t alter column n drop default")
    write(lake.table("db.t"), id=[5], n=[None])
    assert [r["n"] for r in read(new)] == [None, 7, None, 5, None]


def test_parts_of_rows_are_added_dropped_and_renamed_and_old_files_follow(lake: Lake) -> None:
    lake.sql(
        "create table db.t (id int, p struct<x:int,y:int>, l array<struct<x:int>>, primary key (id)) using lakelog"
    )
    table = lake.table("db.t")
    write(table, id=[1], p=[{"x": 1, "y": 2}], l=[[{"x": 3}]])
    decide(table, 0, id=[2], p=[{"x": 4, "y": 5}], l=[[]])
    lake.sql("alter table db.t add column p.z string first; alter table db.t rename column p.x to w")
    lake.sql("alter table db.t drop column p.y; alter table db.t alter column l.element.x type bigint")
    table = lake.table("db.t")
    write(table, id=[3], p=[{"z": "c", "w": 6}], l=[[{"x": 2**40}]])
    wanted = [
        {"id": 1, "p": {"z": None, "w": 1}, "l": [{"x": 3}]},
        {"id": 2, "p": {"z": None, "w": 4}, "l": []},
        {"id": 3, "p": {"z": "c", "w": 6}, "l": [{"x": 2**40}]},
    ]
    assert read(table) == wanted
    table.seal()
    table.compact()
    assert read(table) == wanted
