"""Tables that were idle for longer than their log keeps records: what is lost is an error when it may be rows."""

from __future__ import annotations

import contextlib
import random

import pytest

from lakelog.errors import Fenced, OffsetExpired, Unavailable
from lakelog.lake.table import Table
from lakelog.logstore.clients import appender_for
from lakelog.logstore.embedded.reader import EmbeddedReader
from lakelog.logstore.protocol.header import ABORT, COMMIT, parse_kinds
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.committed_reader import only_control_records_expired
from lakelog.table.log.register import register_writer
from lakelog.table.log.scan import LogScan
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import newest_state
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import expire_records, files, make, rows, trim

UNION = {"read.mode": "union"}
CONSISTENCIES = ("eventual", "transactional")


def attempt(table: Table, writer: str, epoch: int, *ids: int) -> TaskWriter:
    register_writer(table.logical, writer)
    task = TaskWriter(table.logical, writer, epoch, lane=0)
    task.write(rows(*ids).to_batches()[0])
    return task


def stream(table: Table, *epochs: tuple[int, ...], writer: str = "stream") -> Committer:
    """A streaming writer that seals these epochs at once, and tells them."""
    committer = Committer(table.logical, writer)
    for number, ids in enumerate(epochs):
        committer.commit(number, [attempt(table, writer, number, *ids).finish()])
    seal(committer)
    return committer


def away(*_: object) -> None:
    raise Unavailable("away")


def keep_from(table: Table, bucket: int, offset: int) -> None:
    """Lets the records of a bucket before an offset expire."""
    database = appender_for(table.logical.log)._database  # type: ignore[arg-type, attr-defined]
    expire_records(database, bucket, offset)


def read_every_way(table: Table) -> list[list[int]]:
    """The ids that union reads and tails from the newest snapshot find, at both consistencies; or OffsetExpired."""
    found = []
    for mode in CONSISTENCIES:
        options = {"log.consistency": mode}
        found.append([number for number, _ in files(table, **UNION, **options)])
        tail = table.tail("latest-full", stop="latest", options=options)
        found.append(sorted(number for batch in tail for number in batch["id"].to_pylist()))
    return found


def check_lost(table: Table) -> None:
    for mode in CONSISTENCIES:
        with pytest.raises(OffsetExpired, match="starts at offset"):
            files(table, **UNION, **{"log.consistency": mode})
        with pytest.raises(OffsetExpired, match="starts at offset"):
            table.tail("latest-full", options={"log.consistency": mode})


@pytest.mark.parametrize("epochs", [[(1, 2, 3, 4)], [(1, 2, 3, 4), (5, 6, 7, 8)], [(1,), (1, 2, 3, 4), (4,)]])
def test_an_idle_table_whose_log_is_empty_has_lost_nothing(tmp_path, epochs) -> None:
    table = make(tmp_path)
    stream(table, *epochs)
    trim(table)
    ids = sorted({number for epoch in epochs for number in epoch})
    assert read_every_way(table) == [ids] * 4
    with table.writer() as writer:
        writer.write(rows(9))
        writer.flush()
        assert [number for number, _ in files(table, **UNION)] == [*ids, 9], "an open row behind what was lost"
    assert read_every_way(table) == [[*ids, 9]] * 4


def test_markers_of_other_writers_in_between_are_counted(tmp_path) -> None:
    """A seal of epochs that were healed before another seal told its own."""
    table = make(tmp_path)
    first = stream(table, (1, 2, 3, 4))
    second = Committer(table.logical, "second")
    second.commit(0, [attempt(table, "second", 0, 1, 2, 3, 4).finish()])
    first.commit(1, [attempt(table, "stream", 1, 5, 6, 7, 8).finish()])
    seal(first)
    seal(second)
    trim(table)
    assert read_every_way(table) == [list(range(1, 9))] * 4


def test_epochs_that_were_healed_during_a_seal(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    committer = Committer(table.logical, "stream")
    committer.commit(0, [attempt(table, "stream", 0, 1, 2, 3, 4).finish()])
    plain = Committer.append_commit

    def later(self, records) -> None:
        monkeypatch.setattr(Committer, "append_commit", plain)
        self.commit(1, [attempt(table, "stream", 1, 5, 6, 7, 8).finish()])
        plain(self, records)

    monkeypatch.setattr(Committer, "append_commit", later)
    seal(committer)
    seal(committer)
    trim(table)
    assert read_every_way(table) == [list(range(1, 9))] * 4


def test_a_writer_that_was_ended_leaves_nothing_unknown(tmp_path) -> None:
    table = make(tmp_path)
    stream(table, (1, 2, 3, 4))
    stream(table, (5, 6, 7, 8), writer="old")
    attempt(table, "old", 1, 9).finish()
    table.end_writer("old")
    trim(table)
    assert read_every_way(table) == [list(range(1, 9))] * 4


def test_open_rows_that_are_lost_stay_an_error(tmp_path) -> None:
    table = make(tmp_path)
    stream(table, (1, 2, 3, 4))
    attempt(table, "stream", 1, 5, 6, 7, 8).finish()
    trim(table)
    check_lost(table)


def test_open_rows_are_not_counted_as_missing_markers(tmp_path, monkeypatch) -> None:
    """Two commit records are owed; of the attempt that nobody has decided its first record and its row are lost."""
    table = make(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Committer, "append_commit", away)
        committer = stream(table, (1,), (1,))
    state = newest_state(table.logical.store)[1]
    ((bucket, count),) = state.markers.items()
    attempt(table, "other", 0, 1).finish()
    keep_from(table, bucket, state.offsets[bucket] + count)
    check_lost(table)
    committer.append_commit(table.logical.decided.of("stream"))
    check_lost(table)
    table.logical.decided.forget(table.logical.decided.of("stream"))
    check_lost(table)
    trim(table)
    check_lost(table)


def test_rows_that_are_only_decided_stay_an_error(tmp_path) -> None:
    table = make(tmp_path)
    committer = stream(table, (1, 2, 3, 4))
    committer.commit(1, [attempt(table, "stream", 1, 5, 6, 7, 8).finish()])
    trim(table)
    with pytest.raises(OffsetExpired, match="starts at offset"):
        table.tail("latest-full")
    seal(committer)
    assert read_every_way(table) == [list(range(1, 9))] * 4, "their control records have come since"


def test_a_log_that_cannot_count_what_it_lost_stays_an_error(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    stream(table, (1, 2, 3, 4))
    trim(table)
    monkeypatch.setattr("lakelog.logstore.embedded.reader.EmbeddedReader.entries", lambda *_: None)
    check_lost(table)


def test_a_failed_marker_is_appended_by_the_next_seal_once(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Committer, "append_commit", away)
        committer = stream(table, (1, 2, 3, 4))
    trim(table)
    committer.commit(1, [attempt(table, "stream", 1, 5, 6, 7, 8).finish()])
    seal(committer)
    committer.commit(2, [attempt(table, "stream", 2, 1, 2, 3, 4).finish()])
    seal(committer)
    trim(table)
    assert read_every_way(table) == [list(range(1, 9))] * 4


class Writers:
    """Streams, batch writers and what dies of them, at random, on one table."""

    def __init__(self, table: Table, dice: random.Random, patch: pytest.MonkeyPatch) -> None:
        self.table, self.dice, self.patch = table, dice, patch
        self.streams = {name: Committer(table.logical, name) for name in "ab"}
        self.epochs = dict.fromkeys(self.streams, 0)

    def step(self) -> None:
        self.dice.choice([self.commit, self.commit, self.seal, self.seal, self.leave_open, self.batch, self.other])()

    def _ids(self) -> list[int]:
        return self.dice.sample(range(8), self.dice.choice([1, 1, 5]))

    def commit(self) -> None:
        name = self.dice.choice("ab")
        task = attempt(self.table, name, self.epochs[name], *self._ids())
        self.streams[name].commit(self.epochs[name], [task.finish()])
        self.epochs[name] += 1

    def seal(self) -> None:
        """Its control records are told, or not, or its driver dies behind them, or others write before."""
        plain, how = Committer.append_commit, self.dice.choice(["", "", "away", "dies", "late"])

        def tell(committer: Committer, records: list[EpochRecord]) -> None:
            if how == "late":
                self.patch.setattr(Committer, "append_commit", plain)
                self.dice.choice([self.commit, self.leave_open, self.batch])()
            if how != "away":
                plain(committer, records)
            if how in ("away", "dies"):
                raise Unavailable("away")

        self.patch.setattr(Committer, "append_commit", tell)
        seal(self.streams[self.dice.choice("ab")])
        self.patch.setattr(Committer, "append_commit", plain)

    def leave_open(self) -> None:
        name = self.dice.choice("abz")
        attempt(self.table, name, self.epochs.get(name, 0), *self._ids()).finish()

    def batch(self) -> None:
        self.table.write(rows(*self._ids()))

    def other(self) -> None:
        """A driver that starts again, one that finishes what others left, or the end of a writer."""
        what = self.dice.random()
        if what < 0.5:
            name = self.dice.choice("ab")
            self.streams[name] = Committer(self.table.logical, name)
        elif what < 0.9:
            self.table.seal()
        elif "z" in self.table.logical.registered.writers():
            self.table.end_writer("z")


def claims(table: Table, patch: pytest.MonkeyPatch) -> int:
    """In how many places, if the log began there, no more than control records would be lost; they are read."""
    reader, state, count = LogScan(table.logical).reader, newest_state(table.logical.store)[1], 0
    for bucket, end in reader.end_offsets(list(state.offsets)).items():
        known = state.offsets[bucket]
        kinds = [k for part in reader.chunks(bucket, known, end) for k in parse_kinds(part["header"]).to_pylist()]
        for first in range(known + 1, end + 1):
            with patch.context() as context:
                context.setattr(EmbeddedReader, "first_offsets", lambda *_, at={bucket: first}: at)
                if only_control_records_expired(table.logical, state, bucket, known):
                    assert set(kinds[: first - known]) <= {COMMIT, ABORT}
                    count += 1
    return count


def test_what_is_taken_for_control_records_is_never_anything_else(tmp_path, monkeypatch, depth) -> None:
    for seed in depth.seeds(12):
        table = make(tmp_path / str(seed))
        writers = Writers(table, random.Random(seed), monkeypatch)
        for _ in range(25):
            with contextlib.suppress(Fenced):  # a writer that was ended
                writers.step()
            claims(table, monkeypatch)
        table.seal()
        writers.batch()
        assert claims(table, monkeypatch) > 0
