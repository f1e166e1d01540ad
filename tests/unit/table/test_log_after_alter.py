"""A log over every kind of ALTER TABLE: readers and writers from before and after it find each column by its id."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from lakelog import Lake
from lakelog.errors import InvalidSchema
from lakelog.lake.table import Table
from lakelog.paimon.schema.changes import (
    FIRST,
    AddColumn,
    ChangeNullability,
    ChangePosition,
    ChangeType,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    after,
    apply_changes,
)
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import BIGINT, INT, STRING
from lakelog.table.alter import check_log_follows
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.log.register import register_writer
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import append_foreign, silence
from record_batches import PlainRecord

Row = dict[str, Any]
TYPES = {"m": pa.int32(), "n": pa.int32(), "o": pa.int32(), "id": pa.int32(), "k": pa.int32()}
OLD: Row = {"id": 1, "n": 10, "o": 11, "s": "a", "p": {"x": 1, "y": 2}}
FIELDS = "id int, n int, o int, s string, p struct<x:int,y:int>"
NOT_NULL = SetOption("alter-column-null-to-not-null.disabled", "false")


@dataclass(frozen=True)
class Alter:
    """A change; a row with the new columns; what a new reader finds for OLD, and an old reader for the new row."""

    changes: tuple[SchemaChange, ...]
    new: Row
    old_now: Row
    new_before: Row
    types: tuple[tuple[str, pa.DataType], ...] = ()


def new(**more: Any) -> Row:
    return {"id": 2, "n": 20, "o": 21, "s": "b", "p": {"x": 3, "y": 4}, **more}


def without(row: Row, *names: str, **more: Any) -> Row:
    return {**{k: v for k, v in row.items() if k not in names}, **more}


ALTERS = {
    "rename": Alter((RenameColumn(("n",), "m"),), without(new(), "n", m=20), without(OLD, "n", m=10), new()),
    "rename of the key": Alter(
        (RenameColumn(("id",), "k"),), without(new(), "id", k=2), without(OLD, "id", k=1), new()
    ),
    "swap": Alter(
        (RenameColumn(("n",), "t"), RenameColumn(("o",), "n"), RenameColumn(("t",), "o")),
        new(n=21, o=20), {**OLD, "n": 11, "o": 10}, new(),
    ),
    "rename in a row": Alter(
        (RenameColumn(("p", "x"), "z"),), new(p={"z": 3, "y": 4}), {**OLD, "p": {"z": 1, "y": 2}}, new()
    ),
    "wider number": Alter((ChangeType(("n",), BIGINT),), new(), OLD, new(), (("n", pa.int64()),)),
    "text": Alter((ChangeType(("n",), STRING),), new(n="20"), {**OLD, "n": "10"}, new(), (("n", pa.string()),)),
    "wider number in a row": Alter((ChangeType(("p", "x"), BIGINT),), new(), OLD, new()),
    "not null": Alter((NOT_NULL, ChangeNullability(("n",), False)), new(), OLD, new()),
    "reorder": Alter((ChangePosition(("s",), FIRST), ChangePosition(("o",), after("id"))), new(), OLD, new()),
    "drop and add": Alter(
        (DropColumn(("n",)), AddColumn(("n",), STRING)),
        new(n="x"), {**OLD, "n": None}, new(n=None), (("n", pa.string()),),
    ),
}  # fmt: skip


@pytest.fixture(params=ALTERS)
def alter(request: pytest.FixtureRequest) -> Alter:
    return ALTERS[request.param]


@pytest.fixture(params=["debezium-json", "arrow"])
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["upsert", "all", "no key"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


def create(lake: Lake, form: str, mode: str, more: str = "") -> Table:
    key = "" if mode == "no key" else ", primary key (id)"
    changes = "" if mode == "no key" else f", 'log.changelog-mode' = '{mode}'"
    lake.sql(
        f"create table db.t ({FIELDS}{key}) using lakelog tblproperties ('log-store.enabled' = 'true', 'bucket' = '1', "
        f"'bucket-key' = 'id', 'log-store.data-format' = '{form}'{changes}{more})"
    )
    return lake.table("db.t")


def batch(row: Row, types: tuple[tuple[str, pa.DataType], ...] = ()) -> pa.RecordBatch:
    kinds = {**TYPES, **dict(types)}
    return pa.record_batch({k: pa.array([v], kinds.get(k)) for k, v in row.items()})


def write(table: Table, row: Row, types: tuple[tuple[str, pa.DataType], ...] = ()) -> None:
    table.write(pa.Table.from_batches([batch(row, types)]), missing="null")


def tailed(table: Table, start: str = "earliest") -> list[Row]:
    return [row for found in table.tail(start, stop="latest") for row in found.to_pylist()]


def net(table: Table) -> Counter[str]:
    """The rows of the log that remain when retractions cancel what they take back."""
    out: Counter[str] = Counter()
    for row in tailed(table):
        kind = row.pop("_row_kind")
        out[repr(sorted(row.items()))] += 1 if kind in ("+I", "+U") else -1
    return +out


def scanned(table: Table, **options: str) -> list[Row]:
    return sorted(table.scan(options=options).to_arrow().to_pylist(), key=lambda r: (r.get("id") or 0, r.get("k") or 0))


def shown(*rows: Row) -> list[Row]:
    return [{**row, "_row_kind": "+I"} for row in rows]


def test_tails_find_each_column_by_its_id(lake: Lake, alter: Alter, form: str, mode: str, more: str = "") -> None:
    table = create(lake, form, mode, more)
    old = lake.table("db.t")
    write(table, OLD)
    table.alter(*alter.changes)
    write(table, alter.new, alter.types)
    write(old, {**OLD, "id": 3})
    key = "k" if "k" in alter.new else "id"
    assert tailed(table) == shown(alter.old_now, alter.new, {**alter.old_now, key: 3})
    assert tailed(old) == shown(OLD, alter.new_before, {**OLD, "id": 3})
    assert tailed(lake.table("db.t"), "latest-full") == shown(alter.old_now, alter.new, {**alter.old_now, key: 3})
    assert scanned(table) == [alter.old_now, alter.new, {**alter.old_now, key: 3}]
    assert list(tailed(table)[0]) == [*table.schema.names, "_row_kind"]


def test_a_log_in_files_follows(lake: Lake, alter: Alter) -> None:
    test_tails_find_each_column_by_its_id(lake, alter, "debezium-json", "upsert", ", 'log-store.type' = 'files'")


def test_a_tail_that_waits_goes_on(lake: Lake, alter: Alter, form: str) -> None:
    table = create(lake, form, "upsert")
    tail = iter(lake.table("db.t").tail("earliest"))
    write(table, OLD)
    assert next(tail).to_pylist() == shown(OLD)
    table.alter(*alter.changes)
    write(table, alter.new, alter.types)
    assert next(tail).to_pylist() == shown(alter.new_before)


@pytest.mark.parametrize("mode", ["upsert", "no key"])
def test_rows_of_the_log_that_no_file_has_are_merged(lake: Lake, alter: Alter, form: str, mode: str) -> None:
    table = create(lake, form, mode)
    old = lake.table("db.t")
    register_writer(old.logical, "w")
    first = TaskWriter(old.logical, "w", 0, 0)
    first.write(batch(OLD))
    table.alter(*alter.changes)
    Committer(old.logical, "w").commit(0, [first.finish()])
    second = TaskWriter(table.logical, "w", 1, 0)
    second.write(batch(alter.new, alter.types))
    second.flush_log()
    assert scanned(table) == [alter.old_now]
    for reader, wanted in ((table, [alter.old_now, alter.new]), (old, [OLD, alter.new_before])):
        assert scanned(reader, **{"read.mode": "union"}) == wanted
    Committer(table.logical, "w").commit(1, [second.finish()])
    table.seal()
    assert scanned(table) == [alter.old_now, alter.new]
    table.compact()
    assert scanned(table) == [alter.old_now, alter.new]


HEALED = [(name, "old" if number % 2 else "new", "eventual") for number, name in enumerate(ALTERS)]
HEALED += [("rename of the key", "old", "transactional"), ("drop and add", "new", "transactional")]


@pytest.mark.parametrize(("name", "healer", "consistency"), HEALED)
def test_records_of_a_dead_writer_from_before_are_taken_back(
    lake: Lake, name: str, form: str, mode: str, healer: str, consistency: str
) -> None:
    alter = ALTERS[name]
    table = create(lake, form, mode, f", 'log.consistency' = '{consistency}'")
    old = lake.table("db.t")
    write(table, OLD)
    dead = old.writer()
    dead.write(pa.Table.from_batches([batch({**OLD, "n": 99})]))
    dead.flush()
    table.alter(*alter.changes)
    write(table, alter.new, alter.types)
    late = table.writer()
    late.write(pa.Table.from_batches([batch(without(alter.new, s="late"), alter.types)]))
    late.flush()
    for writer in table.logical.registered.writers():
        silence(table, writer)
    take_over_now((old if healer == "old" else table).logical)
    assert scanned(table) == [alter.old_now, alter.new]
    for reader, rows in ((table, [alter.old_now, alter.new]), (old, [OLD, alter.new_before])):
        if mode == "upsert":
            last = {row.get("id", row.get("k")): row for row in tailed(reader)}
            if consistency == "eventual" and reader is old and any(isinstance(c, DropColumn) for c in alter.changes):
                rows[0] = {**OLD, "n": None}  # the row was restored without the column, which is dropped
            assert [without(row, "_row_kind") for row in last.values()] == rows
        else:
            assert net(reader) == Counter(repr(sorted(row.items())) for row in rows)


def test_a_value_that_the_former_type_does_not_have_stops_an_old_reader(lake: Lake, form: str, mode: str) -> None:
    table = create(lake, form, mode)
    old = lake.table("db.t")
    table.alter(ChangeType(("n",), BIGINT))
    write(table, new(n=2**40), (("n", pa.int64()),))
    with pytest.raises(InvalidSchema, match="'n' was changed from INT to BIGINT.*open the table again, or restart the"):
        tailed(old)
    assert tailed(lake.table("db.t")) == shown(new(n=2**40))


def test_null_from_before_stays_null_in_a_column_that_is_not_null_now(lake: Lake, form: str, mode: str) -> None:
    table = create(lake, form, mode)
    write(table, {**OLD, "n": None})
    table.alter(NOT_NULL, ChangeNullability(("n",), False))
    assert [row["n"] for row in tailed(table)] == [row["n"] for row in scanned(table)] == [None]


def test_several_changes_add_up(lake: Lake, form: str, mode: str) -> None:
    table = create(lake, form, mode)
    handles = [lake.table("db.t")]
    write(table, OLD)
    table.alter(AddColumn(("e",), STRING))
    handles.append(lake.table("db.t"))
    write(table, new(e="e"))
    table.alter(RenameColumn(("n",), "m"), RenameColumn(("s",), "n"))
    table.alter(ChangeType(("m",), BIGINT), DropColumn(("o",)))
    handles.append(lake.table("db.t"))
    write(table, {"id": 3, "m": 2**33, "n": "c", "e": None, "p": None}, (("m", pa.int64()), ("n", pa.string())))
    table.alter(AddColumn(("o",), STRING), RenameColumn(("e",), "s"))
    write(
        table,
        {"id": 4, "m": 40, "n": "d", "s": "f", "o": "o"},
        (("m", pa.int64()), ("n", pa.string()), ("o", pa.string())),
    )
    wanted = [
        {"id": 1, "m": 10, "n": "a", "p": OLD["p"], "s": None, "o": None},
        {"id": 2, "m": 20, "n": "b", "p": new()["p"], "s": "e", "o": None},
        {"id": 3, "m": 2**33, "n": "c", "p": None, "s": None, "o": None},
        {"id": 4, "m": 40, "n": "d", "p": None, "s": "f", "o": "o"},
    ]
    assert tailed(table) == shown(*wanted)
    assert tailed(handles[2]) == shown(*(without(row, "s", "o", e=row["s"]) for row in wanted))
    with pytest.raises(InvalidSchema, match="'n' was changed from INT to BIGINT"):
        tailed(handles[1])


def test_a_table_whose_names_keep_their_meaning_has_records_as_before(lake: Lake, form: str) -> None:
    table = create(lake, form, "upsert")
    write(table, OLD)
    table.alter(AddColumn(("e",), STRING), ChangePosition(("s",), FIRST))
    table.alter(DropColumn(("o",)))
    write(table, without(new(e="e"), "o"))
    headers = [h for part in table.log_records() for h in part.column("header").to_pylist()]
    assert {h[:2] for h in headers} == {b"1|"}
    table.alter(RenameColumn(("n",), "m"))
    write(table, {"id": 3, "m": 30})
    headers = [h for part in table.log_records() for h in part.column("header").to_pylist() if h[:2] == b"2|"]
    assert [h.split(b"|")[1::6] for h in headers] == [[b"d", b"3"]]


def test_the_last_row_of_a_key_is_restored_under_its_new_name(lake: Lake, form: str) -> None:
    """A dead writer deleted a row; the healer, of the newest columns, restores it although the key has another name."""
    table = create(lake, form, "upsert")
    write(table, OLD)
    dead = table.writer()
    dead.write(pa.Table.from_batches([batch(OLD).append_column("_row_kind", pa.array(["-D"]))]))
    dead.flush()
    table.alter(RenameColumn(("id",), "k"), RenameColumn(("n",), "m"), ChangeType(("m",), BIGINT))
    write(table, {"k": 2, "m": 20})
    for name in table.logical.registered.writers():
        silence(table, name)
    take_over_now(table.logical)
    last = {row["k"]: row for row in tailed(table)}
    assert without(last[1], "_row_kind") == without(OLD, "id", "n", k=1, m=10)
    assert last[1]["_row_kind"] in ("+I", "+U")


def test_other_producers_know_no_schema_so_the_names_of_an_adopted_log_keep_their_meaning() -> None:
    options = {"log-store.enabled": "true", "log-store.adopt": "true", "bucket": "1", "bucket-key": "id"}
    before = new_schema([("id", INT, None), ("n", INT, None)], options=options)
    for changes, done in (
        ([RenameColumn(("n",), "m")], "'n' cannot be renamed to 'm'"),
        ([ChangeType(("n",), BIGINT)], "'n' cannot be given another type"),
        ([NOT_NULL, ChangeNullability(("n",), False)], "'n' cannot be made NOT NULL"),
        ([DropColumn(("n",)), AddColumn(("n",), INT)], "'n' cannot be added again"),
    ):
        with pytest.raises(InvalidSchema, match=f"{done} in a table with the log of another producer"):
            check_log_follows(apply_changes(before, changes, True, 0), [before])
    check_log_follows(apply_changes(before, [AddColumn(("m",), INT)], True, 0), [before])


def test_a_producer_that_knows_no_schema_keeps_the_first_names(lake: Lake) -> None:
    """Its records have no header. Columns that were added after the change have their names, too."""
    table = create(lake, "debezium-json", "no key")
    table.alter(RenameColumn(("n",), "m"), ChangeType(("m",), BIGINT))
    table.alter(AddColumn(("e",), STRING))
    value = b'{"before":null,"after":{"id":1,"n":7,"e":"e"},"op":"c"}'
    append_foreign(table.logical.log, 0, [PlainRecord(0, 0, None, value)])
    (row,) = tailed(table)
    assert (row["id"], row["m"], row["e"]) == (1, 7, "e")


def test_whole_changes_go_on_from_a_state_that_was_saved_before(lake: Lake, alter: Alter, form: str) -> None:
    """A tail that makes whole changes finds the old rows of its state under their new names and types."""
    table = create(lake, form, "upsert", ", 'log.consumer.normalize' = 'true'")
    write(table, OLD)
    tail = table.tail("earliest", stop="latest")
    assert [row for found in tail for row in found.to_pylist()] == shown(OLD)
    position = tail.position
    table.alter(*alter.changes)
    write(table, {**alter.new, **{k: v for k, v in alter.old_now.items() if k in ("id", "k")}}, alter.types)
    changed = {**alter.new, **{k: v for k, v in alter.old_now.items() if k in ("id", "k")}}
    found = tailed(lake.table("db.t"), position)
    assert found == [{**alter.old_now, "_row_kind": "-U"}, {**changed, "_row_kind": "+U"}]
