"""A closed batch writer leaves the state of the log by its registration, whatever any clock says.

What it was needed for still holds: a process that was suspended does nothing twice, and hides nothing.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.io import clock
from lakelog.lake.table import Table
from lakelog.table.commit import seal
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal_staged
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.maintenance.retention import log_floors
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.log_state import KEPT_BATCHES, KEPT_STREAMS, LogState, WriterState, newest_state
from lakelog.table.model.registrations import BATCH, Registrations
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.read.log_view import capture
from log_tables import files, make, rows, silence, write

DAY_MS = 24 * 3_600_000
KEYS = {"key": ", primary key (id)", "no key": ""}
FILES = ", 'log-store.type' = 'files'"


@pytest.fixture(params=KEYS, ids=str)
def table(request, tmp_path: Path) -> Table:
    return make(tmp_path, key=KEYS[request.param])


def known(table: Table) -> int:
    return len(newest_state(table.logical.store)[1].writers)


def net(table: Table, start: str = "earliest", **options: str) -> Counter[int]:
    """What the log adds up to, per id."""
    out: Counter[int] = Counter()
    for batch in table.tail(start, stop="latest", options=options):
        for kind, at in zip(batch.column("_row_kind").to_pylist(), batch.column("id").to_pylist(), strict=True):
            out[at] += 1 if kind[0] == "+" else -1
    return +out


def check(table: Table, *ids: int) -> None:
    """Each row is there once, in every reading."""
    want = Counter(ids)
    assert sorted(at for at, _ in files(table)) == sorted(ids)
    assert net(table) == net(table, **{"log.consistency": "transactional"}) == want
    assert net(table, "latest-full") == want
    assert table.scan(options={"read.mode": "union"}).count() == len(ids)


@contextmanager
def ahead(days: float) -> Iterator[None]:
    """A machine whose clock is some days ahead."""
    real = clock.time
    shifted = SimpleNamespace(**{name: getattr(real, name) for name in ("monotonic", "sleep", "time")})
    shifted.time_ns = lambda: real.time_ns() + int(days * DAY_MS) * 1_000_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "time", shifted)
        yield


@contextmanager
def meanwhile(owner: Any, method: str, others: Callable[[], None]) -> Iterator[None]:
    """This process is suspended once at the end of a call, and others go on."""
    call, done = getattr(owner, method), list[bool]()

    def suspended(*given: Any, **named: Any) -> Any:
        if done:
            return call(*given, **named)
        done.append(True)
        found = call(*given, **named)
        others()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, suspended)
        yield
    assert done


def test_the_state_stays_small(table) -> None:
    for number in range(30):
        write(table, number)
        assert known(table) <= 2
    check(table, *range(30))


@pytest.mark.parametrize("more", ["", FILES], ids=["embedded", "files"])
@pytest.mark.parametrize("days", [-31, -0.2, 31, 400])
@pytest.mark.parametrize("key", KEYS)
def test_a_wrong_clock_neither_doubles_nor_hides_a_row(tmp_path, monkeypatch, key, days, more) -> None:
    table = make(tmp_path, more, KEYS[key])
    with ahead(days):
        write(table, 0)
    dies_before_its_markers(table, monkeypatch, 1)
    write(table, 2)
    with ahead(days):
        write(table, 3)
    take_over_now(table.logical)
    write(table, 4)
    check(table, *range(5))


def dies_before_its_markers(table: Table, monkeypatch: pytest.MonkeyPatch, *ids: int) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(seal, "append_markers", lambda *_: None)
        writer = table.writer()
        writer.write(rows(*ids))
        writer.commit()
    name = writer._writer
    del writer
    gc.collect()
    silence(table, name)


@pytest.mark.parametrize("days", [-31, 31])
def test_a_stream_is_known_beside_any_clock(tmp_path, days) -> None:
    table = make(tmp_path)
    stream = Committer(table.logical, "query")
    stream.commit(0, [])
    seal_staged(table.logical)
    for shift in (days, 0):
        with ahead(shift):
            write(table, 1)
    assert newest_state(table.logical.store)[1].sealed_epoch("query") == 0


def test_the_oldest_leave_by_their_snapshots() -> None:
    """Not by time: the clock of the one that has sealed last may be a year behind."""
    streams = {f"s{n}": WriterState(0, {}, -n, number=n) for n in range(KEPT_STREAMS + 5)}
    ended = {f"e{n}": WriterState(0, {0: 1}, -n, once=True, ended=True, number=n) for n in range(KEPT_BATCHES + 5)}
    closed = {"closed": WriterState(0, {0: 1}, 10**15, once=True, number=10**6)}
    at_work = {"at work": WriterState(0, {0: 1}, 0, once=True, unmarked={0: "digest"})}
    left = LogState({**streams, **ended, **closed, **at_work}).without_finished(["at work"]).writers
    assert set(left) == {*[*streams][5:], *[*ended][5:], "at work"}


def test_a_state_is_written_and_read() -> None:
    state = LogState({"w": WriterState(3, {0: 9}, 5, once=True, corrected=True, number=7)})
    properties = state.to_properties()
    assert b'"number":7' in properties["lakelog.writers"].encode()
    old = LogState({"w": WriterState(3, {0: 9}, 5)}).to_properties()["lakelog.writers"]
    assert "number" not in old and "corrected" not in old


def closed_meanwhile(table) -> AbstractContextManager[None]:
    """A block that is suspended with a decided epoch, whose writer closes while others seal it and write on."""
    writer = table.writer()
    writer.write(rows(1))
    writer._sealer.committer.commit(0, [writer._task.finish()])
    writer._task = None

    def others() -> None:
        writer.close()
        write(table, 2)
        write(table, 3)

    return meanwhile(DecidedEpochs, "links" if table.logical.schema.is_keyed else "all", others)


def test_a_suspended_sealer_does_not_seal_again(table) -> None:
    """It has read the epoch of a writer that others then seal, and that closes and is forgotten."""
    with closed_meanwhile(table):
        seal_staged(table.logical)
    check(table, 1, 2, 3)


def test_a_suspended_read_returns_a_row_once(table) -> None:
    with closed_meanwhile(table):
        found = waiting_epochs(table.logical)
    assert found.waiting == ()
    check(table, 1, 2, 3)


def test_a_task_that_was_suspended_in_its_registration_takes_no_sealed_row_back(table) -> None:
    """It registers the closed writer again, with the end of the log of before all its rows."""
    with table.writer() as writer:
        writer.write(rows(1, 2))
    for id in (3, 4):
        write(table, id)
    name = writer._writer
    assert name not in newest_state(table.logical.store)[1].writers
    table.logical.registered.register(name, {0: 0}, BATCH)
    take_over_now(table.logical)
    assert not table.logical.registered.all()
    assert +net(table) == Counter(row[0] for row in files(table))


def test_a_reader_sees_a_decided_epoch_whose_writer_was_taken_for_dead_meanwhile(table, monkeypatch) -> None:
    decide, seen = DecidedEpochs.decide, []

    def forgotten(epochs: DecidedEpochs, *given: Any) -> Any:
        table.logical.registered.forget(given[0].writer)
        return decide(epochs, *given)

    def before_the_seal(*_: object, **__: object) -> None:
        seen.append(+net(table, "latest-full"))

    monkeypatch.setattr(DecidedEpochs, "decide", forgotten)
    monkeypatch.setattr("lakelog.table.commit.seal_thread.Sealer.seal_now", before_the_seal)
    write(table, 1, 2)
    assert seen[0] == Counter([1, 2])


@pytest.mark.parametrize("consistency", ["eventual", "transactional"])
def test_a_reader_that_starts_with_a_snapshot_knows_who_has_closed_meanwhile(table, consistency) -> None:
    write(table, 0)

    def others() -> None:
        for number in (1, 2, 3):
            write(table, number)

    with meanwhile(Registrations, "all", others):
        tail = table.tail("latest-full", stop="latest", options={"log.consistency": consistency})
    found = Counter(at for batch in tail for at in batch.column("id").to_pylist())
    repeats = table.logical.schema.is_keyed and consistency == "eventual"  # upserts may come again
    assert (Counter(set(found)) if repeats else found) == Counter(range(4))


@pytest.mark.parametrize("suspended", ["after its decision", "before its abort"])
def test_a_suspended_writer_whose_epoch_others_have_sealed(table, suspended) -> None:
    """Its lease expires, it is taken over and forgotten; then it goes on."""
    writer = table.writer()
    writer.write(rows(1))
    writer.flush()

    def others() -> None:
        table.logical.registered.drop(writer._writer)
        silence(table, writer._writer)
        take_over_now(table.logical)
        write(table, 2)
        write(table, 3)
        assert writer._writer not in newest_state(table.logical.store)[1].writers

    if suspended == "after its decision":
        with meanwhile(DecidedEpochs, "decide", others):
            writer.commit()
    else:
        writer._sealer.committer.commit(0, [writer._task.finish()])
        others()
        abort(writer)
    writer.close()
    write(table, 4)
    check(table, 1, 2, 3, 4)


def abort(writer: Any) -> None:
    """The answer to its decision was lost: it decides to abort."""
    committer = writer._sealer.committer
    committer._known = None
    committer.commit(0, [])


@pytest.mark.parametrize("days", [-31, 31])
def test_a_retention_of_the_log_by_a_wrong_clock_keeps_what_an_open_writer_needs(table, days) -> None:
    writer = table.writer()
    writer.write(rows(1))
    writer.flush()
    write(table, 2)
    with ahead(days):
        floors = log_floors(capture(table.logical), table.logical)
    origin = table.logical.registered.origin(writer._writer)
    assert all(floors[bucket] <= offset for bucket, offset in origin.items() if bucket in floors)
    writer.commit()
    writer.close()
    check(table, 1, 2)


def test_files_of_a_running_writer_are_no_orphans_for_a_clock_that_is_ahead(tmp_path) -> None:
    table = make(tmp_path)
    writer = table.writer(options={"write-buffer-size": "1 b", "emit.mode": "file"})
    writer.write(rows(1, 2))
    with ahead(31):
        table.remove_orphan_files()
    writer.commit()
    writer.close()
    assert [at for at, _ in files(table)] == [1, 2]


def test_partitions_of_today_are_not_old_for_a_clock_that_is_ahead(tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.p (id int, d date) partitioned by (d) tblproperties ('partition.expiration-time' = '7 d')"
    )
    today = pa.table({"id": pa.array([1], pa.int32()), "d": [date.today()]})
    lake.write(today, "db.p")
    table = lake.table("db.p")
    with ahead(31), pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "local_now_ms", lambda: clock.now_ms())
        assert table.expire_partitions("7 d") == []
    assert table.scan().count() == 1
