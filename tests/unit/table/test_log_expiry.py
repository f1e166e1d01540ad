"""Retention of logs without a server: by default rows go when they are old, in a snapshot, and read by readers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import LakelogError
from lakelog.lake.table import Table
from lakelog.logstore import LOG_SYSTEMS, log_factory
from lakelog.logstore.clients import reader_for
from lakelog.logstore.embedded import appender as appending
from lakelog.logstore.files import appender as segments
from lakelog.service.optimizer.runner import RunContext, run_action
from lakelog.table.health.actions import EXPIRY
from lakelog.table.log.register import NamedReaders
from lakelog.table.maintenance.retention import expire_log, log_floors
from lakelog.table.maintenance.run_history import DONE
from lakelog.table.read.log_view import capture
from lakelog.table.tail.tail import AsyncTail
from limits import forget_tables
from log_days import LogDays
from log_tables import files, make, rows, write


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> LogDays:
    return LogDays(monkeypatch)


def firsts(table: Table) -> dict[int, int]:
    assert table.logical.log is not None
    return reader_for(table.logical.log).first_offsets()


def held(table: Table) -> list[int]:
    return sorted(row["id"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist())


def test_old_rows_of_snapshots_expire_and_young_ones_stay(tmp_path: Path, days: LogDays) -> None:
    table = make(tmp_path)
    write(table, *range(10))
    days.pass_to(5)
    write(table, *range(10, 20))
    expire_log(table.logical)
    assert held(table) == list(range(20))
    days.pass_to(8)
    expire_log(table.logical)
    assert held(table) == list(range(10, 20))
    assert [number for number, _ in files(table)] == list(range(20))
    assert files(table, **{"read.mode": "union"}) == files(table)
    assert sorted(row["id"] for batch in table.tail("latest-full", stop="latest") for row in batch.to_pylist()) == list(
        range(20)
    )


def test_rows_that_no_snapshot_has_stay(tmp_path: Path, days: LogDays) -> None:
    table = make(tmp_path)
    write(table, *range(10))
    writer = table.writer()
    writer.write(rows(*range(10, 20)))
    writer.flush()
    days.pass_to(100)
    expire_log(table.logical)
    assert held(table) == list(range(10, 20))
    writer.commit()
    writer.close()
    assert [number for number, _ in files(table)] == list(range(20))
    days.pass_to(200)
    write(table, *range(20, 30))
    expire_log(table.logical)
    assert held(table) == list(range(20, 30))


def test_rows_that_a_named_reader_has_not_read_stay(tmp_path: Path, days: LogDays) -> None:
    table = make(tmp_path)
    write(table, *range(10))
    readers = NamedReaders(table.logical.io, table.logical.path)
    readers.record("slow", firsts(table))
    days.pass_to(100)
    write(table, *range(10, 20))
    expire_log(table.logical)
    assert held(table) == list(range(20))
    assert log_floors(capture(table.logical), table.logical) == firsts(table)
    readers.record("slow", reader_for(table.logical.log).end_offsets())  # type: ignore[arg-type]
    expire_log(table.logical)
    assert held(table) == list(range(10, 20))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tail_with_a_consumer_id_is_a_named_reader(tmp_path: Path, days: LogDays, is_async: bool) -> None:
    table = make(tmp_path)
    write(table, *range(10))
    named = {"options": {"consumer-id": "billing"}, "stop": "latest"}

    def read_all(start: str) -> list[int]:
        batches = table.tail(start, **named) if not is_async else asyncio.run(all_of(table.tail_async(start, **named)))
        return [number for batch in batches for number in batch["id"].to_pylist()]

    assert sorted(read_all("earliest")) == list(range(10))
    assert [(one.name, one.lag) for one in table.health().figures.log.readers] == [("billing", 0)]
    days.pass_to(100)
    write(table, *range(10, 20))
    assert [(one.name, one.lag) for one in table.health().figures.log.readers] == [("billing", 10)]
    days.pass_to(200)
    expire_log(table.logical)
    assert held(table) == list(range(10, 20)), "the reader still needs them"
    tail = table.tail("earliest", **named)
    next(tail)
    assert table.health().figures.log.readers[0].lag == 10, "the batch may not be processed yet"
    tail.close()
    read_all("earliest")
    write(table, 30)
    expire_log(table.logical)
    assert 10 not in held(table)


async def all_of(tail: AsyncTail) -> list[pa.RecordBatch]:
    return [batch async for batch in tail]


@pytest.mark.parametrize("name", ["../x", "a/b", " ", "a\nb"])
def test_a_consumer_id_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LakelogError):
        make(tmp_path).tail("earliest", options={"consumer-id": name})


def test_rows_that_only_the_log_has_stay(tmp_path: Path, days: LogDays) -> None:
    table = make(tmp_path, ", 'emit.mode' = 'log'", key="")
    write(table, *range(10))
    days.pass_to(100)
    write(table, *range(10, 20))
    expire_log(table.logical)
    assert held(table) == list(range(20))


@pytest.mark.parametrize("system", [name for name in LOG_SYSTEMS if log_factory(name).is_local])
@pytest.mark.parametrize("retention_given", ["", ", 'log-store.retention' = '1 d'"])
def test_what_short_jobs_leave_behind_is_a_need_that_optimize_fulfils(
    tmp_path: Path, days: LogDays, system: str, retention_given: str
) -> None:
    table = make(tmp_path, f", 'log-store.type' = '{system}'{retention_given}")
    for number in range(3):
        write(table, number)
    assert table.health().needs == ()
    days.pass_to(100)
    assert [need.kind for need in table.health().needs] == [EXPIRY]
    assert run_action(table.logical, EXPIRY, RunContext(lambda: False)).outcome == DONE
    assert len(held(table)) <= 1, "the newest batch stays"
    assert table.health().needs == ()
    assert len(files(table)) == 3


@pytest.mark.parametrize("system", [name for name in LOG_SYSTEMS if log_factory(name).is_local])
def test_the_first_write_of_a_process_removes_what_a_retention_says(tmp_path: Path, days: LogDays, system: str) -> None:
    table = make(tmp_path, f", 'log-store.type' = '{system}', 'log-store.retention' = '1 d'")
    for number in range(3):
        write(table, number)
    days.pass_to(100)
    forget_tables()  # as another process
    write(table, 4)
    assert held(table) == [4]


@pytest.mark.parametrize("ahead", [31, -31])
@pytest.mark.parametrize("system", ["embedded", "files"])
def test_a_machine_with_a_wrong_clock_loses_no_young_row_and_keeps_none_for_ever(
    tmp_path: Path, days: LogDays, system: str, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, every in ((appending, "_TRIM_EVERY"), (segments, "_EXPIRE_EVERY")):
        monkeypatch.setattr(module, every, 1)
    table = make(tmp_path, f", 'log-store.type' = '{system}', 'log-store.retention' = '7 d'")
    days.pass_to(100)
    write(table, *range(10))
    days.pass_to(101, ahead)
    write(table, *range(10, 20))  # and trims
    expire_log(table.logical)
    days.pass_to(102)
    write(table, *range(20, 30))
    expire_log(table.logical)
    assert held(table) == list(range(30))
    days.pass_to(120)
    write(table, *range(30, 40))
    for _ in range(2):
        expire_log(table.logical)
    assert held(table) == list(range(30, 40))
