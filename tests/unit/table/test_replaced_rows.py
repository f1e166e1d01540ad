"""Overwrites of a table with a key and a log of input rows, beside other writers and failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog.errors import Unavailable
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake.table import Table
from lakelog.table.write import replaced_rows
from lakelog.table.write.table_writer import TableWriter
from log_tables import files, folded, make, rows

UNION = {"read.mode": "union"}


def write(table: Table, *ids: int, name: str = "a") -> None:
    with table.writer() as writer:
        writer.write(rows(*ids, name=name))


def check(table: Table, wanted: list[tuple[int, str]]) -> None:
    assert files(table) == files(table, **UNION) == folded(table) == wanted


def after_its_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Calls ``act`` once, right after the epoch of the next overwrite."""

    class Writer(TableWriter):
        def close(self) -> None:
            super().close()
            monkeypatch.undo()
            act()

    monkeypatch.setattr(replaced_rows, "TableWriter", Writer)


def test_an_overwrite_that_is_decided_succeeds_although_its_files_cannot_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    write(table, 1, 2)

    def refuse(self: LocalFileIO, path: str) -> None:
        raise Unavailable("no answer")

    def fail() -> None:
        monkeypatch.setattr(LocalFileIO, "delete", refuse)

    after_its_commit(monkeypatch, fail)
    with table.writer(overwrite=True) as writer:
        writer.write(rows(2, 3, name="b"))
    monkeypatch.undo()
    check(table, [(2, "b"), (3, "b")])


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_the_log_ends_with_the_committed_row_after_another_writer_of_the_key_gave_up(
    tmp_path: Path, vectors: str
) -> None:
    table = make(tmp_path, f", 'deletion-vectors.enabled' = '{vectors}'")
    write(table, 1, name="old")
    with table.writer() as writer:
        writer.write(rows(1, name="new"))
        writer.flush()
        with pytest.raises(ZeroDivisionError), table.writer() as other:
            other.write(rows(1, name="never"))
            other.flush()
            raise ZeroDivisionError
    assert folded(table) == files(table, **UNION) == [(1, "new")]
