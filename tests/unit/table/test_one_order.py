"""One order of what is decided: an acknowledged write is above all that was decided before it, whoever wrote that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import CommitUnknown, Unavailable
from lakelog.io.file_io import FileStatus
from lakelog.lake.table import Table
from lakelog.logstore.clients import reader_for
from lakelog.logstore.healing import Healing
from lakelog.logstore.systems.embedded import EmbeddedReader
from lakelog.service.optimizer.optimizer import Optimizer
from lakelog.service.optimizer.settings import OptimizerSettings
from lakelog.table import writer as writer_module
from lakelog.table.committer import Committer
from lakelog.table.decided_epochs import DecidedEpochs
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.epoch_record import EpochRecord
from lakelog.table.lease_keeper import drop_lease
from lakelog.table.register import register_writer
from lakelog.table.seal import seal
from lakelog.table.take_over import take_over
from lakelog.table.task_writer import TaskWriter
from lakelog.table.waiting_epochs import waiting_epochs
from lakelog.table.writer import TableWriter
from log_tables import files, folded, make, rows, silence

Rows = list[tuple[int, str]]
FORMS = [("upsert", "debezium-json"), ("upsert", "arrow"), ("all", "debezium-json"), ("all", "arrow")]


class Died(BaseException):
    """The process is killed."""


@pytest.fixture(params=FORMS, ids=["-".join(form) for form in FORMS])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    mode, form = request.param
    return make(tmp_path, f", 'log.changelog-mode' = '{mode}', 'log-store.data-format' = '{form}'")


def without_log(tmp_path: Path) -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.t (id int, name string, primary key (id)) using lakelog tblproperties ('bucket' = '2')")
    return lake.table("db.t")


def attempt(table: DynamicTable, writer: str, epoch: int, given: pa.Table) -> TaskWriter:
    register_writer(table, writer)
    task = TaskWriter(table, writer, epoch, 0)
    task.write(given.to_batches()[0])
    return task


def decided(table: Table, writer: str, epoch: int, *ids: int, name: str = "") -> Committer:
    """A streaming query that has decided an epoch and not sealed it."""
    task = attempt(table.logical, writer, epoch, rows(*ids, name=name or f"{writer}{epoch}"))
    committer = Committer(table.logical, writer)
    committer.commit(epoch, [task.finish()])
    return committer


def write(table: Table, *ids: int, name: str, kind: str = "+I") -> None:
    with table.writer() as writer:
        writer.write(rows(*ids, name=name, kinds=[kind] * len(ids)))


def transactional(table: Table, start: str = "earliest") -> Rows:
    found: dict[int, str] = {}
    for batch in table.tail(start, stop="latest", options={"log.consistency": "transactional"}):
        for row in batch.to_pylist():
            if row["_row_kind"] in ("+I", "+U"):
                found[row["id"]] = row["name"]
            elif row["_row_kind"] == "-D":
                found.pop(row["id"], None)
    return sorted(found.items())


def check(table: Table, want: Rows) -> None:
    """At once, behind a seal, and by every reader."""
    for moment in ("at once", "sealed"):
        assert files(table) == want, moment
        if table.log is not None:
            assert folded(table) == want, moment
            assert files(table, **{"read.mode": "union"}) == want, moment
            if table.logical.changelog_mode == "all":
                assert {"dead", "lost"}.isdisjoint(name for _, name in added_up(table)), moment
        table.seal()
    if table.log is not None:
        assert transactional(table) == want
        assert transactional(table, "latest-full") == want
    assert waiting_epochs(table.logical).waiting == ()


def added_up(table: Table) -> Counter[tuple[int, str]]:
    """What a consumer of a log of changes has that adds up rows: row → how often."""
    found: Counter[tuple[int, str]] = Counter()
    for batch in table.tail("earliest", stop="latest"):
        for row in batch.to_pylist():
            found[row["id"], row["name"]] += 1 if row["_row_kind"][0] == "+" else -1
    return Counter({row: count for row, count in found.items() if count})


CHANGED = [(1, "stream0"), (4, "updated"), (5, "inserted"), (6, "new")]


def change(table: Table) -> None:
    write(table, 3, name="x", kind="-D")
    write(table, 4, name="updated", kind="+U")
    write(table, 5, 6, name="inserted")
    write(table, 6, name="new")


@pytest.mark.parametrize("state", ["alive", "dead"])
def test_a_batch_change_is_above_what_a_stream_has_decided_before(table: Table, state: str) -> None:
    owner = decided(table, "stream", 0, 1, 3, 4, 5)
    if state == "dead":
        silence(table, "stream")
    change(table)
    check(table, CHANGED)
    if state == "alive":
        seal(owner)
        check(table, CHANGED)
        task = attempt(table.logical, "stream", 1, rows(3, name="again"))
        owner.commit(1, [task.finish()])
        check(table, sorted([*CHANGED, (3, "again")]))


@pytest.mark.parametrize("state", ["alive", "comes back"])
def test_so_it_is_in_a_table_without_a_log(tmp_path: Path, state: str) -> None:
    table = without_log(tmp_path)
    owner = decided(table, "stream", 0, 1, 3, 4, 5)
    change(table)
    check(table, CHANGED)
    seal(owner if state == "alive" else decided(table, "stream", 0, 1, 3, 4, 5))
    check(table, CHANGED)


def test_an_overwrite_of_a_use_without_the_log_comes_after_what_is_decided(tmp_path: Path) -> None:
    table = without_log(tmp_path)
    decided(table, "stream", 0, 1, 2)
    with table.writer(overwrite=True) as writer:
        writer.write(rows(7, name="whole"))
    check(table, [(7, "whole")])


def dies_before_its_snapshot(table: Table, monkeypatch: pytest.MonkeyPatch, *ids: int, name: str) -> str:
    """A batch write that is killed between its decision and its snapshot; the writer."""
    before = set(table.logical.registered.writers())

    def died(_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(writer_module, "seal", died)
        with pytest.raises(Died):
            write(table, *ids, name=name)
    (name,) = set(table.logical.registered.writers()) - before
    return name


@pytest.mark.parametrize("state", ["alive", "dead"])
def test_a_batch_write_is_above_one_that_died_before_its_snapshot(table: Table, monkeypatch, state: str) -> None:
    first = dies_before_its_snapshot(table, monkeypatch, 1, 3, 4, 5, 6, name="first")
    if state == "dead":
        silence(table, first)
    assert files(table) == [(number, "first") for number in (1, 3, 4, 5, 6)], "it has decided"
    change(table)
    want = [(1, "first"), *CHANGED[1:]]
    assert files(table) == want
    if first in table.logical.registered.writers():
        silence(table, first)
    lake = connect(warehouse=table.path.rsplit("/", 2)[0])
    list(Optimizer(lake, OptimizerSettings(kinds=("healing",))).once())
    check(table, want)
    assert table.logical.registered.writers() == []


def open_write(table: Table, *ids: int, name: str) -> tuple[TableWriter, str]:
    """A batch write that is under way: its rows are in the log; and its writer."""
    before = set(table.logical.registered.writers())
    writer = table.writer()
    writer.write(rows(*ids, name=name))
    writer.flush()
    (made,) = set(table.logical.registered.writers()) - before
    return writer, made


def while_it_heals(monkeypatch: pytest.MonkeyPatch, step: Callable[[], None]) -> None:
    """Runs a step once, between what a healer has read and what it appends because of it."""
    plan, ran = Healing.plan, []

    def planned(self: Healing, region: pa.Table, gone: range = range(0)) -> Any:
        found = plan(self, region, gone)
        if found and not ran:
            ran.append(True)
            step()
        return found

    monkeypatch.setattr(Healing, "plan", planned)


@pytest.mark.parametrize("end", ["commits", "aborts", "dies"])
def test_a_row_that_comes_while_a_dead_writer_is_taken_back(table: Table, monkeypatch, end: str) -> None:
    write(table, *range(8), name="r0")
    _, dead = open_write(table, *range(8), name="dead")
    live, name = open_write(table, 99, name="r1")
    silence(table, dead)

    def comes() -> None:
        live.write(rows(*range(0, 8, 2), name="r1"))
        live.flush()

    while_it_heals(monkeypatch, comes)
    assert list(take_over(table.logical)) == [dead]
    if end == "commits":
        live.commit()
        live.close()
    elif end == "aborts":
        live.close()
    else:
        silence(table, name)
        assert list(take_over(table.logical)) == [name]
    r1 = [*range(0, 8, 2), 99] if end == "commits" else []
    check(table, sorted([*((n, "r1") for n in r1), *((n, "r0") for n in range(8) if n not in r1)]))


def test_a_row_that_is_decided_while_a_dead_writer_is_taken_back(table: Table, monkeypatch) -> None:
    write(table, *range(8), name="r0")
    _, dead = open_write(table, *range(8), name="dead")
    live, _ = open_write(table, *range(0, 8, 2), name="r1")
    silence(table, dead)
    while_it_heals(monkeypatch, live.commit)
    list(take_over(table.logical))
    live.close()
    check(table, [(n, "r0" if n % 2 else "r1") for n in range(8)])


def test_rows_of_two_that_decide_in_the_other_order_than_they_wrote(table: Table) -> None:
    first, _ = open_write(table, *range(8), name="first")
    second, _ = open_write(table, *range(8), name="second")
    second.commit()
    first.commit()
    check(table, [(n, "first") for n in range(8)])
    for writer in (first, second):
        writer.close()


def test_rows_of_a_killed_writer_are_taken_back_by_the_next_writers(table: Table) -> None:
    write(table, *range(6), name="r0")
    _, dead = open_write(table, *range(3, 9), name="dead")
    assert (8, "dead") in files(table, **{"read.mode": "union"}), "it is alive"
    silence(table, dead)
    assert files(table, **{"read.mode": "union"}) == [(n, "r0") for n in range(6)], "it is dead"
    for number in range(3):
        write(table, number, name=f"r{number + 1}")
    check(table, [(0, "r1"), (1, "r2"), (2, "r3"), *((n, "r0") for n in range(3, 6))])
    assert table.logical.registered.writers() == []
    assert table.health().needs == ()


def old_epoch(table: Table, writer: str, epoch: int, *ids: int, name: str, batch: bool = False) -> EpochRecord:
    """An epoch as versions before the chain have decided it: a file in the directory of its writer."""
    task = attempt(table.logical, writer, epoch, rows(*ids, name=name))
    staged = Path(table.path) / "lakelog" / "staged" / writer
    (staged / "lease").unlink(missing_ok=True)
    drop_lease(table.logical, writer)
    if batch:
        (staged / "batch").write_bytes(orjson.dumps({"host": "elsewhere", "boot": "1", "process": 1}))
    since = table.logical.registered.origin(writer)
    record = EpochRecord(writer, epoch, old_epoch.time_ms, (task.finish(),), since, once=batch)  # type: ignore[attr-defined]
    old_epoch.time_ms += 1  # type: ignore[attr-defined]
    (staged / f"epoch-{epoch:019d}").write_bytes(record.to_bytes())
    return record


old_epoch.time_ms = 1_700_000_000_000  # type: ignore[attr-defined]


def upgraded(table: Table) -> None:
    """A table with open epochs of a version before the chain; in the end 1: z0, 2: b0, 3: z1."""
    old_epoch(table, "z", 0, 1, 2, 3, name="z0")
    old_epoch(table, "b", 0, 2, 3, name="b0", batch=True)
    old_epoch(table, "z", 1, 3, name="z1")


def test_open_epochs_of_a_version_before_the_chain_are_read_and_sealed_in_their_order(table: Table) -> None:
    upgraded(table)
    assert files(table) == [(1, "z0"), (2, "b0"), (3, "z1")]
    check(table, [(1, "z0"), (2, "b0"), (3, "z1")])
    write(table, 3, name="new")
    check(table, [(1, "z0"), (2, "b0"), (3, "new")])


def test_a_write_is_above_open_epochs_of_a_version_before_the_chain(table: Table) -> None:
    upgraded(table)
    write(table, 1, name="x", kind="-D")
    write(table, 2, name="new")
    check(table, [(2, "new"), (3, "z1")])
    committer = decided(table, "z", 2, 3, 4)
    check(table, [(2, "new"), (3, "z2"), (4, "z2")])
    seal(committer)
    assert list((Path(table.path) / "lakelog" / "staged").glob("*/epoch-*")) == []
    assert list((Path(table.path) / "lakelog" / "chain").iterdir()) == []


def test_a_query_of_a_version_before_the_chain_goes_on(table: Table) -> None:
    old_epoch(table, "z", 0, 1, 2, name="z0")
    attempt(table.logical, "z", 1, rows(2, 3, name="lost")).flush_log()
    again = Committer(table.logical, "z")
    assert again.commit(0, []) is not None, "it is decided already"
    again.commit(1, [attempt(table.logical, "z", 1, rows(2, 4, name="z1")).finish()])
    seal(again)
    check(table, [(1, "z0"), (2, "z1"), (4, "z1")])


def test_what_a_version_before_the_chain_owes_is_told_behind_the_first_link(table: Table, monkeypatch) -> None:
    upgraded(table)
    with monkeypatch.context() as patched:
        patched.setattr(Committer, "append_commit", _away)
        write(table, 4, name="new")
    want = [(1, "z0"), (2, "b0"), (3, "z1"), (4, "new")]
    assert files(table) == want
    table.seal()
    write(table, 5, name="newer")
    check(table, [*want, (5, "newer")])


def _away(*_: object) -> None:
    raise Unavailable("away")


def test_two_that_look_at_the_same_end_of_the_chain_decide_one_after_the_other(table: Table) -> None:
    tasks = {name: attempt(table.logical, name, 0, rows(1, 2, name=name)) for name in "ab"}
    committers = {name: Committer(table.logical, name) for name in "ab"}
    for committer in committers.values():
        committer._look()
    made = [committers[name].commit(0, [tasks[name].finish()]) for name in "ba"]
    assert [record.number for record in made if record is not None] == [1, 2]
    more = committers["b"].commit(1, [attempt(table.logical, "b", 1, rows(2, name="b1")).finish()])
    assert more is not None and more.number == 3
    assert [(r.writer, r.epoch) for r in waiting_epochs(table.logical).waiting] == [("b", 0), ("a", 0), ("b", 1)]
    check(table, [(1, "a"), (2, "b1")])


@pytest.mark.parametrize("then", ["goes on", "dies"])
def test_a_link_that_was_sealed_and_is_made_again_decides_nothing(table: Table, monkeypatch, then: str) -> None:
    late = Committer(table.logical, "late")
    task = attempt(table.logical, "late", 0, rows(1, name="late"))
    late._look()
    decide = DecidedEpochs.decide

    def decide_late(self: DecidedEpochs, record: EpochRecord, tip: int = 0) -> tuple[EpochRecord, bool]:
        monkeypatch.setattr(DecidedEpochs, "decide", decide)
        write(table, 1, 2, name="first")
        write(table, 2, name="second")
        found = decide(self, record, tip)
        assert (found[0].number, found[1]) == (1, True), "the first link is sealed and forgotten"
        assert files(table) == [(1, "first"), (2, "second")]
        if then == "dies":
            raise Died
        return found

    monkeypatch.setattr(DecidedEpochs, "decide", decide_late)
    if then == "goes on":
        record = late.commit(0, [task.finish()])
        assert record is not None and record.number == 3
        check(table, [(1, "late"), (2, "second")])
        return
    with pytest.raises(Died):
        late.commit(0, [task.finish()])
    silence(table, "late")
    write(table, 3, name="third")
    check(table, [(1, "first"), (2, "second"), (3, "third")])


@pytest.mark.parametrize("is_made", [True, False])
@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_decision_whose_answer_is_lost_counts_once_or_not_at_all(
    table: Table, monkeypatch, is_made: bool, kind: str
) -> None:
    write(table, 1, 2, name="old")
    io = type(table.logical.io)
    create = io.create

    def lost(self: Any, path: str, data: bytes) -> bool:
        if "/lakelog/chain/" not in path:
            return bool(create(self, path, data))
        monkeypatch.setattr(io, "create", create)
        if is_made:
            assert create(self, path, data)
        raise CommitUnknown("the answer is lost")

    monkeypatch.setattr(io, "create", lost)
    if kind == "batch":
        with pytest.raises(CommitUnknown):
            write(table, 2, 3, name="new")
        check(table, [(1, "old"), (2, "new"), (3, "new")] if is_made else [(1, "old"), (2, "old")])
        assert table.logical.registered.writers() == []
        return
    committer = Committer(table.logical, "stream")
    result = attempt(table.logical, "stream", 0, rows(2, 3, name="new")).finish()
    with pytest.raises(CommitUnknown):
        committer.commit(0, [result])
    assert committer.commit(0, [result]) is not None, "Spark runs it again"
    assert len(table.logical.decided.links()) == 1
    seal(committer)
    check(table, [(1, "old"), (2, "new"), (3, "new")])


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_listing_that_misses_a_link_loses_no_epoch(table: Table, monkeypatch, missing: int) -> None:
    for number in range(3):
        decided(table, f"w{number}", 0, 1, number + 2)
    io = type(table.logical.io)
    listed = io.list

    def without(self: Any, path: str) -> list[FileStatus]:
        hidden = f"{missing:019d}"
        return [s for s in listed(self, path) if not (path.endswith("/lakelog/chain") and s.name == hidden)]

    with monkeypatch.context() as patched:
        patched.setattr(io, "list", without)
        if missing < 3:
            assert files(table) == [(1, "w20"), (2, "w00"), (3, "w10"), (4, "w20")]
        write(table, 1, name="last")
        assert files(table) == [(1, "last"), (2, "w00"), (3, "w10"), (4, "w20")]
    check(table, [(1, "last"), (2, "w00"), (3, "w10"), (4, "w20")])


def test_a_seal_of_a_use_that_fills_no_log_leaves_the_rows_of_others_in_the_log(table: Table) -> None:
    decided(table, "stream", 0, 1, 2)
    only_files = table.logical.with_hints({"emit.mode": "file"})
    task = TaskWriter(only_files, "files", 0, 0)
    task.write(rows(5, name="file").to_batches()[0])
    beside = Committer(only_files, "files")
    beside.commit(0, [task.finish()])
    seal(beside)
    again = Committer(table.logical, "stream")
    again.commit(1, [attempt(table.logical, "stream", 1, rows(3, name="stream1")).finish()])
    seal(again)
    assert files(table) == [(1, "stream0"), (2, "stream0"), (3, "stream1"), (5, "file")]
    told = [(1, "stream0"), (2, "stream0"), (3, "stream1")]
    assert folded(table) == transactional(table) == told
    assert added_up(table) == dict.fromkeys(told, 1)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The buckets of the log that were read from."""
    found: list[int] = []
    read = EmbeddedReader.read

    def counted(self: EmbeddedReader, bucket: int, *given: Any, **more: Any) -> pa.Table:
        found.append(bucket)
        return read(self, bucket, *given, **more)

    monkeypatch.setattr(EmbeddedReader, "read", counted)
    return found


def test_a_quiet_batch_write_reads_nothing_back(table: Table, reads: list[int]) -> None:
    with table.writer() as writer:
        for epoch in range(3):
            for start in range(0, 5_000, 1_000):
                writer.write(rows(*range(start, start + 1_000), name=f"e{epoch}"))
            writer.commit()
    assert reads == []
    write(table, *range(10), name="next")
    assert reads == []


def test_the_first_epochs_of_a_quiet_stream_read_nothing_back(table: Table, reads: list[int]) -> None:
    committer = Committer(table.logical, "stream")
    for epoch in range(3):
        committer.commit(epoch, [attempt(table.logical, "stream", epoch, rows(*range(100), name="a")).finish()])
        if epoch:
            seal(committer)
    assert reads == []
    reader_for(table.log).read(0, 0) if table.log is not None else None
    assert reads == [0], "it counts"
