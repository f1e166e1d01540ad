"""Healers, followers and publishers of a log whose columns were renamed or retyped since records were written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from changelogs import newest
from lakelog import Lake
from lakelog.lake.table import Table
from lakelog.logstore.base import LogLocation, Records
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.logstore.protocol.header import DATA, UNOWNED_HEADER, encode_header
from lakelog.paimon.schema.changes import AddColumn, ChangeType, DropColumn, RenameColumn, SetOption
from lakelog.paimon.types.types import BIGINT, INT, STRING
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.log.record_schemas import RecordSchemas
from lakelog.table.log.register import register_writer
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.materializer import LogMaterializer
from log_tables import log_of, silence


@pytest.fixture(params=["debezium-json", "arrow"])
def form(request: pytest.FixtureRequest) -> str:
    return request.param


def create(lake: Lake, form: str = "debezium-json", more: str = "") -> Table:
    lake.sql(
        "create table db.t (id int, n int, s string, primary key (id)) using lakelog tblproperties ('bucket' = '1', "
        f"'log-store.enabled' = 'true', 'log-store.data-format' = '{form}'{more})"
    )
    return lake.table("db.t")


def write(table: Table, options: dict[str, str] | None = None, **columns: list[Any]) -> None:
    table.write(pa.Table.from_batches([rows(**columns)]), options=options, missing="null")


def rows(**columns: list[Any]) -> pa.RecordBatch:
    return pa.record_batch(
        {n: pa.array(c, None if n in ("s", "_row_kind") else pa.int32()) for n, c in columns.items()}
    )


def last_of_log(table: Table, key: str = "id") -> dict[int, dict[str, Any]]:
    return newest(table.tail("earliest", stop="latest"), key)


def in_files(table: Table, key: str = "id") -> dict[int, dict[str, Any]]:
    return {row[key]: row for row in table.scan().to_arrow().to_pylist()}


def take_over(table: Table) -> None:
    for writer in table.logical.registered.writers():
        silence(table, writer)
    take_over_now(table.logical)


@pytest.mark.parametrize("mode", ["upsert", "all"])
@pytest.mark.parametrize("seal", [True, False])
def test_a_late_retraction_does_not_delete_a_key_that_was_renamed(lake: Lake, form: str, mode: str, seal: bool) -> None:
    """Two tasks wrote +U and -U of one key in the wrong order; the committer knows the key by its former name."""
    table = create(lake, form, f", 'log.changelog-mode' = '{mode}'")
    write(table, id=[1], n=[10], s=["a"])
    old = lake.table("db.t").logical
    register_writer(old, "w")
    tasks = [TaskWriter(old, "w", 0, lane) for lane in (0, 1)]
    tasks[0].write(rows(id=[1], n=[20], s=["b"], _row_kind=["+U"]))
    tasks[0].flush_log()
    tasks[1].write(rows(id=[1], n=[10], s=["a"], _row_kind=["-U"]))
    table.alter(RenameColumn(("id",), "k"), RenameColumn(("n",), "m"))
    Committer(old, "w").commit(0, [task.finish() for task in tasks])
    if seal:
        table.seal()
    wanted = {1: {"k": 1, "m": 20, "s": "b"}}
    assert in_files(table, "k") == last_of_log(table, "k") == wanted


def test_rows_that_only_the_log_has_are_restored_under_a_new_name(lake: Lake, form: str) -> None:
    table = create(lake, form)
    only_log = {"emit.mode": "log"}
    write(table, only_log, id=[1, 2], n=[10, 20], s=["a", "b"])
    table.alter(RenameColumn(("id",), "k"), ChangeType(("n",), BIGINT))
    with pytest.raises(KeyError), lake.table("db.t").writer(options=only_log, missing="null") as writer:
        writer.write(pa.table({"k": pa.array([2], pa.int32()), "n": [2**40]}))
        writer.flush()
        raise KeyError("the writer fails")
    assert last_of_log(table, "k") == {1: {"k": 1, "n": 10, "s": "a"}, 2: {"k": 2, "n": 20, "s": "b"}}


def test_a_dead_row_that_the_new_type_does_not_have_is_taken_back(lake: Lake, form: str) -> None:
    """Nobody ever reads the row again, so it must not hold up the healing."""
    table = create(lake, form)
    write(table, id=[1], n=[1], s=["5"])
    dead = table.writer(missing="null")
    dead.write(pa.Table.from_batches([rows(id=[1, 2], n=[1, 2], s=["none", "no number"])]))
    dead.flush()
    table.alter(SetOption("disable-explicit-type-casting", "false"), ChangeType(("s",), INT))
    take_over(table)
    ends = [header.split(b"|") for part in table.log_records() for header in part.column("header").to_pylist()]
    assert [head[0] for head in ends if head[1] == b"x"] == [b"2", b"2"]
    assert in_files(table) == {1: {"id": 1, "n": 1, "s": 5}}


def test_a_follower_reads_rows_of_producers_from_before_and_after(lake: Lake) -> None:
    table = create(lake)
    log = log_of(table)
    append(log, b'{"before":null,"after":{"id":1,"n":10,"s":"a"},"op":"c"}', UNOWNED_HEADER)
    table.alter(RenameColumn(("n",), "m"), DropColumn(("s",)), AddColumn(("n",), STRING))
    own = RecordSchemas(table.logical).own_id
    append(log, b'{"before":null,"after":{"id":2,"m":20,"n":"b"},"op":"c"}', encode_header(DATA, "", 0, "", schema=own))
    append(log, b'{"before":null,"after":{"id":3,"n":30,"s":"c"},"op":"c"}', UNOWNED_HEADER)
    list(table.follow(stop="latest"))
    wanted = [(1, 10, None), (2, 20, "b"), (3, 30, None)]
    assert sorted((r["id"], r["m"], r["n"]) for r in in_files(table).values()) == wanted


def test_a_follower_loses_no_column_of_an_alter_beside_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ALTER, and a row with its new column, arrive after the follower has loaded the newest schema."""
    table = create(lake)
    log = log_of(table)
    read, done = LogMaterializer._read, list[bool]()

    def altered(self: LogMaterializer, opened: DynamicTable, ends: Mapping[int, int]) -> EpochRecord:
        if not done:
            done.append(True)
            table.alter(RenameColumn(("n",), "m"), AddColumn(("more",), STRING))
            header = encode_header(DATA, "", 0, "", schema=RecordSchemas(table.logical).own_id)
            value = b'{"before":null,"after":{"id":2,"m":20,"s":"b","more":"kept"},"op":"c"}'
            append(log, value, header)
            ends = reader_for(log).end_offsets()
        return read(self, opened, ends)

    append(log, b'{"before":null,"after":{"id":1,"n":10,"s":"a"},"op":"c"}', UNOWNED_HEADER)
    monkeypatch.setattr(LogMaterializer, "_read", altered)
    list(table.follow(stop="latest"))  # up to the end that the log had before
    list(table.follow(stop="latest"))
    assert [(r["m"], r["more"]) for _, r in sorted(in_files(table).items())] == [(10, None), (20, "kept")]


def append(log: LogLocation, value: bytes, header: bytes) -> None:
    appender = appender_for(log)
    appender.append(0, Records(pa.nulls(1, pa.large_binary()), pa.array([value], pa.large_binary()), header))
    appender.flush()


def test_a_published_log_adds_up_over_a_change(lake: Lake, form: str) -> None:
    more = ", 'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum'"
    table = create(lake, form, more)
    write(table, id=[1, 2], n=[1, 2], s=["a", "b"])
    old = lake.table("db.t")
    table.alter(RenameColumn(("id",), "k"), RenameColumn(("n",), "m"), ChangeType(("m",), BIGINT))
    table.write(pa.table({"k": pa.array([1], pa.int32()), "m": [2**33], "s": ["c"]}), missing="null")
    table.seal()
    wanted = {1: {"k": 1, "m": 2**33 + 1, "s": "c"}, 2: {"k": 2, "m": 2, "s": "b"}}
    assert in_files(table, "k") == last_of_log(table, "k") == wanted
    old.write(pa.Table.from_batches([rows(id=[2], n=[5], s=["d"])]), missing="null")
    old.seal()
    wanted[2] = {"k": 2, "m": 7, "s": "d"}
    assert in_files(table, "k") == last_of_log(table, "k") == wanted
    tail = [r for b in table.tail("earliest", stop="latest") for r in b.to_pylist()]
    assert [(r["_row_kind"], r["k"], r["m"]) for r in tail[2:]] == [
        ("-U", 1, 1), ("+U", 1, 2**33 + 1), ("-U", 2, 2), ("+U", 2, 7)
    ]  # fmt: skip
