"""Mistakes of a user without SQL: the error names what was given, by its name, and the way out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake, LakelogError
from lakelog.errors import NoPermission, Unavailable
from lakelog.io.storage.local import LocalFileIO

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]})


def ids(*values: object) -> pa.Table:
    return pa.table({"id": list(values), "name": ["x"] * len(values)})


def writer_after_its_block(lake: Lake) -> None:
    with lake.table("db.t").writer() as writer:
        writer.write(ROWS)
    writer.write(ROWS)


Mistake = tuple[Callable[[Lake], object], str]
MISTAKES: dict[str, Mistake] = {
    "table without its database": (lambda lake: lake.table("orders"), "default.orders .* did you mean 'shop.orders'"),
    "typo in a table": (lambda lake: lake.table("db.tt"), "db.tt does not exist in '.*', did you mean 't'"),
    "typo in a database": (lambda lake: lake.table("dbb.t"), "'dbb' does not exist in '.*', did you mean 'db'"),
    "another directory": (lambda lake: lakelog.connect("nowhere").table("db.t"), "'db' does not exist in '.*nowhere'"),
    "a file as the warehouse": (
        lambda lake: lakelog.connect(_file()).sql("create database db"), "'.*a_file.*' .* name a directory",
    ),
    "a scheme that is unknown": (lambda lake: lakelog.connect("foo://bar").list_databases(), "foo"),
    "typo in a column": (lambda lake: lake.table("db.t").scan(["nam"]), "nam.*name"),
    "typo in a filter": (lambda lake: lake.table("db.t").scan(filter="nam = 'a'").to_arrow(), "nam"),
    "a snapshot that is not there": (
        lambda lake: lake.table("db.t").scan(snapshot_id=7).to_arrow(), "table db.t has no snapshot 7; it has",
    ),
    "a tag that is not there": (lambda lake: lake.table("db.t").scan(tag="x").to_arrow(), "table db.t has no tag 'x'"),
    "a time before the first": (
        lambda lake: lake.table("db.t").scan(timestamp=0).to_arrow(),
        r"table db.t has no snapshot at 1970-01-01 00:00:00 UTC .* the oldest, 1, is of 20\d\d-",
    ),
    "two points in time": (lambda lake: lake.table("db.t").scan(tag="x", snapshot_id=1), "give one of"),
    "a value that is too large": (
        lambda lake: lake.write(ids(2**40), "db.t"), r"'id' of table db.t is int32: .*1099511627776.* alter column id",
    ),
    "text in a number": (lambda lake: lake.write(ids("one"), "db.t"), "'id' of table db.t is int32, .*string: cast it"),
    "a key that is NULL": (lambda lake: lake.write(ids(None), "db.t"), "NULL in column 'id' of table db.t"),
    "a column that is unknown": (
        lambda lake: lake.write(ROWS.append_column("nme", pa.array(["a", "b"])), "db.t"), "nme",
    ),
    "a column that is missing": (lambda lake: lake.write(ROWS.select(["id"]), "db.t"), "name"),
    "a writer after its block": (writer_after_its_block, "writer of table db.t is closed: open a new one"),
    "a table that exists": (lambda lake: lake.create_table("db.t", {"id": "int"}), "db.t.*exists"),
    "a type that is unknown": (lambda lake: lake.create_table("db.u", {"id": "intt"}), "intt"),
    "a key that is no column": (lambda lake: lake.create_table("db.u", {"id": "int"}, primary_key="idd"), "idd"),
    "an option that is unknown": (
        lambda lake: lake.create_table("db.u", {"id": "int"}, options={"buckt": 1}), "'buckt'.*'bucket'",
    ),
    "a bad value of an option": (
        lambda lake: lake.create_table("db.u", {"id": "int"}, options={"bucket": "many"}), "'bucket' = 'many'",
    ),
    "tail without a log": (lambda lake: lake.table("db.t").tail(), "db.t has no log store: create it with"),
    "a start that is unknown": (lambda lake: lake.table("db.logged").tail("soon"), "'soon'"),
    "an option of file reads for a log": (
        lambda lake: lake.table("db.logged").tail(options={"scan.snapshot-id": "1"}),
        "'scan.snapshot-id' = '1' chooses",
    ),
    "a branch that is not there": (lambda lake: lake.table("db.t").branch("dev"), "dev"),
    "a rename onto a table": (lambda lake: lake.rename_table("db.t", "shop.orders"), "shop.orders exists"),
    "a drop of what is not there": (lambda lake: lake.drop_table("db.u"), "db.u does not exist in"),
    "a database that is not empty": (lambda lake: lake.drop_database("db"), "db"),
    "a column as the columns": (lambda lake: lake.table("db.t").scan("id"), r"columns='id'.*Pass a list"),
}  # fmt: skip


def _file() -> str:
    Path("a_file").write_text("x")
    return "a_file"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.chdir(tmp_path)
    lake = lakelog.connect("warehouse")
    lake.create_table("db.t", {"id": "int", "name": "string"}, primary_key="id")
    lake.create_table("shop.orders", {"id": "int"})
    lake.create_table("db.logged", {"id": "int"}, options={"log-store.enabled": True})
    lake.write(ROWS, "db.t")
    return lake


@pytest.mark.parametrize("name", MISTAKES)
def test_the_error_of_a_mistake_says_what_and_what_instead(lake: Lake, name: str) -> None:
    mistake, words = MISTAKES[name]
    with pytest.raises(LakelogError) as raised:
        mistake(lake)
    text = str(raised.value)
    assert re.search(words, text, re.DOTALL), text
    assert "/db.db/t" not in text, "the table has a name"
    assert not raised.value.retriable, "another try ends in the same way"


@pytest.mark.parametrize("why", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_only_what_may_pass_is_retriable(why: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise why

    path = tmp_path / "file"
    path.write_bytes(b"x")
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(Unavailable) as raised:
        LocalFileIO().read(str(path))
    assert isinstance(raised.value, NoPermission) == isinstance(why, PermissionError)
    assert raised.value.retriable != isinstance(why, PermissionError)
