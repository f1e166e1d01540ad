from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from debezium_consumer import folded
from lakelog.errors import Fenced
from lakelog.table.commit import take_over as module
from lakelog.table.commit.take_over import dead_writers, take_over
from log_tables import JSON, files, make, rows

TIMEOUT_MS = 1000


def test_rows_that_a_writer_appends_after_it_was_taken_for_dead_are_taken_back(tmp_path: Path) -> None:
    table = make(tmp_path, f", 'log.writer-timeout' = '{TIMEOUT_MS} ms'{JSON}")
    writer = table.writer()
    writer.write(rows(1, name="late"))
    (name,) = table.logical.registered.writers()
    table.logical.registered.drop(name)  # as if the process had been stopped just before its next append
    while not list(take_over(table.logical)):
        threading.Event().wait(0.05)
    writer.write(rows(2, name="late"))
    with pytest.raises(Fenced):
        writer.commit()
    writer.close()
    with table.writer() as other:
        other.write(rows(9, name="other"))
    values = (v for records in table.log_records() for v in records.column("value").to_pylist())
    assert list(folded(values, ["id"]).values()) == [{"id": 9, "name": "other"}]
    assert files(table) == [(9, "other")]


def test_two_that_take_over_from_one_writer_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, f", 'log.writer-timeout' = '{TIMEOUT_MS} ms'")
    writer = table.writer()
    writer.write(rows(1, name="late"))
    (name,) = table.logical.registered.writers()
    table.logical.registered.drop(name)
    while not (dead := dead_writers(table.logical)):
        threading.Event().wait(0.05)
    assert list(take_over(table.logical)) == [name]
    monkeypatch.setattr(module, "dead_writers", lambda _: dead)  # the other one has checked before
    assert list(take_over(table.logical)) == []
    assert table.logical.registered.writers() == []


def test_files_of_a_process_that_died_during_registration_are_cleaned(tmp_path: Path) -> None:
    table = make(tmp_path, f", 'log.writer-timeout' = '{TIMEOUT_MS} ms'")
    staged = tmp_path / "warehouse" / "db.db" / "t" / "lakelog" / "staged"
    for name in ("lease", ".origin.4478dcc6.tmp"):
        (staged / name.strip(".")).mkdir(parents=True)
        file = staged / name.strip(".") / name
        file.write_bytes(b"{}")
        os.utime(file, (1, 1))
    with table.writer() as writer:
        writer.write(rows(1))
    assert list(staged.iterdir()) == []
