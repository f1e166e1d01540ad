"""CHECK constraints: every way of writing meets them, and the rows that a table has are never in doubt by surprise."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import ConstraintViolation, InvalidOption, InvalidRequest, InvalidSchema, LakelogError
from lakelog.lake import Lake
from lakelog.lake.table import Table
from lakelog.logstore.clients import appender_for
from lakelog.logstore.formats import log_format
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.options.features import FEATURES_KEY
from lakelog.options.log import DATA_FORMAT
from lakelog.paimon.rows.row_kind import INSERT
from lakelog.paimon.schema.changes import RemoveOption, SetOption
from lakelog.table.write.positioned_writer import PositionedWriter

LOG = "'log-store.enabled' = 'true', 'log-store.type' = 'embedded'"
KINDS = {"log": ("primary key (id)", LOG), "files": ("primary key (id)", ""), "append": ("", "")}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database d")
        yield lake


def new_table(lake: Lake, kind: str = "log", more: str = "'bucket' = '1'") -> None:
    key, options = KINDS[kind]
    columns = ", ".join(filter(None, ("id int, v int, name string", key)))
    lake.sql(f"create table d.t ({columns}) tblproperties ({', '.join(filter(None, (options, more)))})")


def rows(*values: tuple[object, ...], kinds: list[str] | None = None) -> pa.Table:
    ids, numbers, names = zip(*values, strict=True)
    table = pa.table(
        {"id": pa.array(ids, pa.int32()), "v": pa.array(numbers, pa.int32()), "name": pa.array(names, pa.string())}
    )
    return table if kinds is None else table.append_column("_row_kind", pa.array(kinds))


def write(lake: Lake, *values: tuple[object, ...], kinds: list[str] | None = None, **options: str) -> None:
    with lake.table("d.t").writer(options={key.replace("_", "-"): value for key, value in options.items()}) as writer:
        writer.write(rows(*values, kinds=kinds))


def read(lake: Lake) -> dict[int, int | None]:
    return {row["id"]: row["v"] for row in lake.table("d.t").to_arrow().to_pylist()}


def rejected(lake: Lake) -> list[Mapping[str, object]]:
    return lake.table("d.t$rejected").scan().to_arrow().to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_each_way_of_writing_refuses_a_row_that_violates_a_constraint(lake: Lake, kind: str) -> None:
    new_table(lake, kind)
    write(lake, (1, 1, "a"), (2, 2, "b"))
    lake.sql("alter table d.t add constraint positive check (v > 0 and name in ('a', 'b'))")
    with pytest.raises(ConstraintViolation, match=r"1 of 2 rows .*'positive' of table d\.t: CHECK \(v > 0.*id=4, v=-5"):
        write(lake, (3, 3, "a"), (4, -5, "b"))
    with pytest.raises(ConstraintViolation), lake.table("d.t").writer(overwrite=True) as writer:
        writer.write(rows((4, -5, "a")))
    for text in ("insert into d.t values (4, -5, 'a')", "update d.t set v = -1 where id = 1"):
        with pytest.raises(ConstraintViolation):
            lake.sql(text)
    if kind != "append":
        with pytest.raises(ConstraintViolation):  # of an ingest, a pipe or a view
            PositionedWriter(lake.table("d.t").logical, "pipe").write(rows((4, -5, "a")).to_batches()[0])
    assert read(lake) == {1: 1, 2: 2}
    write(lake, (5, None, None))  # NULL is no violation
    assert read(lake) == {1: 1, 2: 2, 5: None}


@pytest.mark.parametrize("kind", KINDS)
def test_old_rows_are_checked_first_unless_the_constraint_is_not_valid(lake: Lake, kind: str) -> None:
    new_table(lake, kind)
    write(lake, *((number, -number, "a") for number in range(1, 6)), (9, 9, "z"))
    add = "alter table d.t add constraint positive check (v > 0)"
    with pytest.raises(ConstraintViolation, match=r"5 rows of table d\.t .*id=1.*id=2.*id=3.*NOT VALID") as refused:
        lake.sql(add)
    assert "id=4" not in str(refused.value) and "check.positive" not in lake.table("d.t").options
    lake.sql(f"{add} not valid")
    lake.sql("update d.t set v = 7 where id = 9")
    lake.sql("delete from d.t where id = 1")  # without a key, its file has rows that stay as they are
    assert read(lake) == {2: -2, 3: -3, 4: -4, 5: -5, 9: 7}
    with pytest.raises(ConstraintViolation):
        lake.table("d.t").alter(RemoveOption("check.positive.existing-rows"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_was_opened_before_meets_the_constraint(lake: Lake, kind: str) -> None:
    new_table(lake, kind)
    table, writer = lake.table("d.t"), lake.table("d.t").writer()
    writer.write(rows((1, 1, "a")))
    writer.commit()
    lake.sql("alter table d.t rename column v to n")
    if kind != "append":  # its buckets are those of the whole row
        lake.sql("alter table d.t alter column n type bigint")
    lake.sql(
        "alter table d.t add column extra int; alter table d.t add constraint positive check (n > 0 and extra > 0)"
    )
    bad = rows((2, -2, "b"))
    with pytest.raises(ConstraintViolation, match="'positive'"):
        writer.write(bad)
    writer.close()
    for write_all in (table.write, lambda rows: overwrite(table, rows)):
        with pytest.raises(ConstraintViolation, match="'positive'"):
            write_all(bad)
    lake.sql("alter table d.t drop constraint positive")
    table.write(bad)
    assert sorted(lake.table("d.t").to_arrow()["id"].to_pylist()) == [1, 2]


def overwrite(table: Table, bad: pa.Table) -> None:
    with table.writer(overwrite=True) as writer:
        writer.write(bad)


def test_retractions_are_not_checked(lake: Lake) -> None:
    new_table(lake)
    write(lake, (1, -1, "a"))
    lake.sql("alter table d.t add constraint positive check (v > 0) not valid")
    write(lake, (1, -1, "a"), (1, 1, "a"), kinds=["-U", "+U"])
    write(lake, (1, -1, "a"), kinds=["-D"])
    assert read(lake) == {}


@pytest.mark.parametrize("kind", ["log", "files"])
def test_a_constraint_rejects_rows_and_they_are_replayed(lake: Lake, kind: str) -> None:
    new_table(lake, kind)
    lake.sql("alter table d.t add constraint positive check (v > 0) on violation reject")
    write(lake, (1, 1, "a"), (2, -2, "b"), (3, 3, "c"))
    assert read(lake) == {1: 1, 3: 3}
    (row,) = rejected(lake)
    assert row["text"] == "id=2, v=-2, name=b" and "'positive'" in str(row["reason"])
    with pytest.raises(InvalidSchema, match="id"):  # other bad rows fail, as without a constraint
        write(lake, (None, 1, "x"))
    with pytest.raises(InvalidOption, match="would lose the rows that constraint 'positive'"):
        write(lake, (4, 4, "d"), on_bad_record="skip")
    for text in ("update d.t set v = -1 where id = 1", "insert overwrite d.t values (5, -5, 'e')"):
        with pytest.raises(ConstraintViolation):  # they would take the former row of the key away
            lake.sql(text)
    with pytest.raises(ConstraintViolation), lake.table("d.t").writer(overwrite=True) as writer:
        writer.write(rows((5, -5, "e")))
    lake.sql("alter table d.t drop constraint positive")
    lake.sql("call sys.replay_rejected('d.t')")
    assert read(lake) == {1: 1, 2: -2, 3: 3} and rejected(lake) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_write_rejects_rows_too_and_takes_the_others(lake: Lake, kind: str) -> None:
    new_table(lake, kind)
    lake.sql("alter table d.t add constraint positive check (v > 0) on violation reject")
    counts = lake.table("d.t").write(rows((1, 1, "a"), (2, -2, "b"), (3, 3, "c")))
    assert counts["num_inserted_rows"] == 2 and read(lake) == {1: 1, 3: 3}
    lake.sql("insert into d.t values (4, 4, 'd'), (5, -5, 'e')")
    lake.write(rows((6, -6, "f")), "d.t")
    assert read(lake) == {1: 1, 3: 3, 4: 4}
    assert sorted(str(row["text"]) for row in rejected(lake)) == [
        f"id={n}, v=-{n}, name={name}" for n, name in ((2, "b"), (5, "e"), (6, "f"))
    ]
    with pytest.raises(InvalidOption, match="on-bad-record"):
        lake.table("d.t").write(rows((7, 7, "g")), options={"on-bad-record": "keep"})
    lake.sql("alter table d.t drop constraint positive")
    lake.sql("call sys.replay_rejected('d.t')")
    assert read(lake) == {1: 1, 2: -2, 3: 3, 4: 4, 5: -5, 6: -6} and rejected(lake) == []


def test_a_follower_rejects_records_that_violate_a_constraint(lake: Lake) -> None:
    new_table(lake, more="'bucket' = '1', 'log-store.data-format' = 'debezium-json'")
    lake.sql("alter table d.t add constraint positive check (v > 0) on violation reject")
    table = lake.table("d.t")
    log, schema = table.logical.log, table.logical.schema
    assert log is not None
    given = rows((1, 1, "a"), (2, -2, "b")).to_batches()[0]
    form, places = log_format(table.logical.options.need(DATA_FORMAT)), {0: np.arange(2)}
    kinds = np.full(2, INSERT, np.int8)
    packed = form.messages(given, kinds, table.logical.changelog_mode, schema.primary_keys, UNOWNED_HEADER, places)
    appender = appender_for(log)
    appender.append(0, packed[0].records)  # as a real-time query does
    appender.flush()
    list(table.follow(stop="latest"))
    assert read(lake) == {1: 1}
    assert [row["offset"] is not None for row in rejected(lake)] == [True]


def test_a_constraint_that_fails_does_so_beside_one_that_rejects(lake: Lake) -> None:
    new_table(lake)
    lake.sql("alter table d.t add constraint small check (v < 10) on violation reject")
    lake.sql("alter table d.t add constraint positive check (v > 0)")
    with pytest.raises(ConstraintViolation, match="'positive'"):
        write(lake, (1, 11, "a"), (2, -2, "b"), (3, 3, "c"), on_bad_record="keep")
    assert read(lake) == {} and rejected(lake) == []


def test_a_warning_names_the_rows_that_are_written(lake: Lake, caplog) -> None:
    new_table(lake, "append")
    lake.sql("alter table d.t add constraint positive check (v > 0) on violation warn")
    with caplog.at_level(logging.WARNING, "lakelog.write"):
        write(lake, (1, 1, "a"), (2, -2, "b"))
    (line,) = [record.getMessage() for record in caplog.records if record.name == "lakelog.write"]
    assert "'positive'" in line and "id=2, v=-2" in line
    assert read(lake) == {1: 1, 2: -2}


def test_a_constraint_is_shown_and_goes_with_its_table(lake: Lake) -> None:
    new_table(lake)
    lake.sql("alter table d.t add constraint words check (name like 'a(%' and v between 1 and 9) on violation reject")
    described = lake.table("d.t").describe(extended=True)
    assert ("words", "CHECK (name like 'a(%' and v between 1 and 9) ON VIOLATION REJECT", "") in described
    (text,) = lake.sql("show create table d.t")[0].to_pylist()
    assert "'check.words' = 'name like \\'a(%\\' and v between 1 and 9'" in text
    assert lake.table("d.t").options[FEATURES_KEY] == "writer=check-constraints"
    lake.sql("drop table d.t")
    lake.sql(text.replace("`", ""))
    lake.sql("create table d.u like d.t")
    for name in ("d.t", "d.u"):
        options = lake.table(name).options
        assert options["check.words.on-violation"] == "reject" and "check-constraints" in options[FEATURES_KEY]
    lake.sql("alter table d.t drop constraint words; alter table d.t drop constraint if exists words")
    assert not [key for key in lake.table("d.t").options if key.startswith(("check.", FEATURES_KEY))]
    with pytest.raises(InvalidSchema, match="no constraint 'words'"):
        lake.sql("alter table d.t drop constraint words")


@pytest.mark.parametrize("change", ["drop column v", "rename column v to w"])
def test_a_column_of_a_constraint_stays(lake: Lake, change: str) -> None:
    new_table(lake)
    lake.sql("alter table d.t add constraint positive check (v > 0)")
    with pytest.raises(InvalidSchema, match="column 'v' cannot be dropped or renamed: constraint 'positive' uses it"):
        lake.sql(f"alter table d.t {change}")
    lake.sql("alter table d.t alter column v type bigint")
    lake.sql("alter table d.t rename column name to other")


@pytest.mark.parametrize(
    ("clause", "why"),
    [
        ("c check (w > 0)", "constraint 'c': .*'w'"),
        ("c check (v > id)", "constraint 'c'"),
        ("c check (v > 'x')", "constraint 'c'"),
        ("c check (v > 0) on violation ignore", "FAIL, REJECT, WARN"),
        ("c check v > 0", r"\("),
        ("`a.b` check (v > 0)", "letters, digits"),
        ("c primary key (id)", "only CHECK"),
        ("old check (v < 9)", "has a constraint 'old' already"),
    ],
)
def test_a_wrong_constraint_is_refused_with_its_name(lake: Lake, clause: str, why: str) -> None:
    new_table(lake)
    lake.sql("alter table d.t add constraint old check (v > 0)")
    before = lake.table("d.t").options
    with pytest.raises(InvalidRequest, match=why):
        lake.sql(f"alter table d.t add constraint {clause}")
    assert lake.table("d.t").options == before


def test_options_of_constraints_are_checked_like_the_statement(lake: Lake) -> None:
    new_table(lake)
    table = lake.table("d.t")
    for key, value in {"check.c": "w > 0", "check.c.on-violation": "fail", "check.c.x": "1", FEATURES_KEY: ""}.items():
        with pytest.raises(LakelogError):
            table.alter(SetOption(key, value))
    table.alter(SetOption("check.c", "v > 0"))
    with pytest.raises(LakelogError):
        lake.table("d.t").alter(RemoveOption(FEATURES_KEY))
    with pytest.raises(ConstraintViolation):
        write(lake, (1, -1, "a"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_rollback_brings_rows_back_that_a_new_constraint_would_refuse(lake: Lake, kind: str) -> None:
    new_table(lake, kind)
    write(lake, (1, -1, "a"))
    number = lake.table("d.t").snapshots()[-1].id
    lake.sql("delete from d.t; alter table d.t add constraint positive check (v > 0)")
    lake.sql(f"restore table d.t to version as of {number}")
    assert read(lake) == {1: -1}


def test_a_new_table_has_the_constraints_of_its_statement(lake: Lake) -> None:
    lake.sql(
        "create table d.t (id int check (id > 0) on violation warn, v int check (v > 0) check (v < 9), name string, "
        "primary key (id), constraint words check (name in ('a', 'b(')) on violation reject, check (id < 99), "
        "check (v <> 5))"
    )
    options = lake.table("d.t").options
    checks = {key.removeprefix("check."): value for key, value in options.items() if key.startswith("check.")}
    assert {key: value for key, value in checks.items() if "." not in key} == {
        "id_check": "id > 0",
        "v_check": "v > 0",
        "v_check1": "v < 9",
        "words": "name in ('a', 'b(')",
        "check": "id < 99",
        "check1": "v <> 5",
    }
    assert checks["words.on-violation"] == "reject" and checks["id_check.on-violation"] == "warn"
    with pytest.raises(ConstraintViolation, match="'v_check1'"):
        write(lake, (1, 9, "a"))
    for columns, words in (
        ("v int, constraint a check (v > 0), constraint a check (v > 1)", "'a' already"),
        ("v int check (w > 0)", "'v_check'"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            lake.sql(f"create table d.u ({columns})")
