"""What a process remembers of a table: of this table and branch alone, and no more than fits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakelog import connect
from lakelog.filestore.metadata import table_memory
from lakelog.filestore.metadata.table_memory import TableMemory, memory_of

CREATE = "create table db.t (id bigint, primary key (id)) tblproperties ('bucket' = '1')"


def test_a_memory_is_of_one_table_and_branch(tmp_path: Path) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database db")
        lake.sql(CREATE)
        memory = lake.table("db.t").logical.identity.memory
        assert lake.table("db.t").logical.identity.memory is memory
        lake.sql("alter table db.t create branch b")
        assert lake.table("db.t$branch_b").logical.identity.memory is not memory
        lake.sql("alter table db.t rename to db.u")
        lake.sql("drop table db.u")
        lake.sql(CREATE)
        assert lake.table("db.t").logical.identity.memory is not memory


def test_a_forked_process_begins_with_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, process = memory_of("forked"), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    assert memory_of("forked") is not memory


def test_the_memory_that_was_used_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_memory, "_MEMORIES", type(table_memory._MEMORIES)(2))
    first, second = memory_of("first"), memory_of("second")
    assert memory_of("first") is first
    memory_of("third")
    assert memory_of("first") is first
    assert memory_of("second") is not second


def test_a_check_is_due_once_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, memory = [5.0], TableMemory()
    monkeypatch.setattr(table_memory, "monotonic_s", lambda: now[0])
    assert [memory.is_due("tags", 10), memory.is_due("tags", 10), memory.is_due("log", 10)] == [True, False, True]
    now[0] = 15.0
    assert memory.is_due("tags", 10)
