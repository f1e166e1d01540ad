"""The chain of decided epochs: tables of before, races of decisions, lost answers, and what a quiet writer reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from lakelog.errors import CommitUnknown, Unavailable
from lakelog.io.storage.file_io import FileStatus
from lakelog.lake.table import Table
from lakelog.logstore.clients import reader_for
from lakelog.logstore.embedded.reader import EmbeddedReader
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import files, folded, make, rows, silence
from ordered_writes import FORMS, Died, added_up, attempt, check, decided, transactional, write


@pytest.fixture(params=FORMS, ids=["-".join(form) for form in FORMS])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    mode, form = request.param
    return make(tmp_path, f", 'log.changelog-mode' = '{mode}', 'log-store.data-format' = '{form}'")


def old_epoch(table: Table, writer: str, epoch: int, *ids: int, name: str, batch: bool = False) -> EpochRecord:
    """An epoch as versions before the chain have decided it: a file in the directory of its writer."""
    task = attempt(table.logical, writer, epoch, rows(*ids, name=name))
    staged = Path(table.path) / "lakelog" / "staged" / writer
    (staged / "lease").unlink(missing_ok=True)
    table.logical.registered.drop(writer)
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


def test_missing_markers_of_an_older_version_are_appended_after_the_first_link(table: Table, monkeypatch) -> None:
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


def test_two_writers_at_the_same_end_of_the_chain_decide_one_after_the_other(table: Table) -> None:
    tasks = {name: attempt(table.logical, name, 0, rows(1, 2, name=name)) for name in "ab"}
    committers = {name: Committer(table.logical, name) for name in "ab"}
    for committer in committers.values():
        committer._read_epochs()
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
    late._read_epochs()
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
