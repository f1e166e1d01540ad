"""Writers that commit at the same time: one seals the epochs of all (``table/commit/seal_turn.py``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog import Table
from lakelog.io.storage.local import LocalFileIO
from lakelog.table.commit import seal_turn
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.write.table_writer import TableWriter
from log_tables import files, folded, make, rows
from sealing_writers import KEYS, hold, two_at_work


def told(table: Table) -> list[int]:
    """What a transactional reader of the log has returned."""
    tail = table.tail("earliest", stop="latest", options={"log.consistency": "transactional"})
    return sorted(row["id"] for batch in tail for row in batch.to_pylist())


@KEYS
def test_a_commit_is_done_when_another_writer_has_sealed_it(tmp_path: Path, monkeypatch, key: str) -> None:
    table = make(tmp_path, key=key)
    first, second = two_at_work(table)
    turn, before = hold(table), table.latest_snapshot().id
    waits: list[float] = []

    def the_holder_seals(pause_s: float) -> None:
        waits.append(pause_s)
        assert len(seal_staged(table.logical)) == 1

    monkeypatch.setattr(seal_turn, "sleep", the_holder_seals)
    second.write(rows(5, 6))
    second.commit()
    assert len(waits) == 1 and turn.exists()
    assert table.latest_snapshot().id == before + 1
    assert [row[0] for row in files(table)] == [0, 1, 5, 6]
    assert told(table) == [0, 1, 5, 6]
    turn.unlink()
    for writer in (first, second):
        writer.close()
    assert table.logical.registered.writers() == [] and table.latest_snapshot().id == before + 1


@KEYS
def test_a_writer_that_closes_leaves_no_markers_to_a_sealer_that_died(tmp_path: Path, monkeypatch, key: str) -> None:
    table = make(tmp_path, key=key)
    first, second = two_at_work(table)
    hold(table)

    def the_holder_dies_after_its_snapshot(_: float) -> None:
        with monkeypatch.context() as patched:
            patched.setattr("lakelog.table.commit.seal.append_markers", lambda *_: None)
            seal_staged(table.logical)

    monkeypatch.setattr(seal_turn, "sleep", the_holder_dies_after_its_snapshot)
    second.write(rows(5))
    second.commit()
    assert told(table) == [0, 1]
    second.close()
    assert told(table) == [0, 1, 5]
    first.close()
    assert table.logical.registered.writers() == []


@KEYS
def test_a_dead_holder_of_the_turn_delays_one_commit(tmp_path: Path, monkeypatch, key: str) -> None:
    table = make(tmp_path, key=key)
    first, second = two_at_work(table)
    turn, now = hold(table), [0.0]

    def later(pause_s: float) -> None:
        now[0] += pause_s

    monkeypatch.setattr(seal_turn, "sleep", later)
    monkeypatch.setattr(seal_turn, "monotonic_s", lambda: now[0])
    for at, writer in enumerate((second, first)):
        writer.write(rows(5 + at))
        writer.commit()
        assert not turn.exists()
        if not at:
            assert 3 < now[0] < 4
            now[0] = 0.0
    assert now[0] == 0.0
    assert [row[0] for row in files(table)] == [row[0] for row in folded(table)] == [0, 1, 5, 6]
    for writer in (first, second):
        writer.close()


def test_a_single_writer_takes_no_turn(tmp_path: Path, monkeypatch) -> None:
    table, create = make(tmp_path, key=""), LocalFileIO.create

    def noted(io: LocalFileIO, path: str, data: bytes) -> bool:
        assert not path.endswith("/seal-turn")
        return create(io, path, data)

    monkeypatch.setattr(LocalFileIO, "create", noted)
    with table.writer() as writer:
        for at in range(3):
            writer.write(rows(at))
            writer.commit()
    assert table.latest_snapshot().id == 3


def decided(table: Table, monkeypatch, count: int) -> list[TableWriter]:
    """Writers that have decided an epoch each, with row n of the nth, and have not sealed it."""
    writers = [table.writer() for _ in range(count)]
    with monkeypatch.context() as patched:
        patched.setattr("lakelog.table.write.table_writer.seal_in_turn", lambda *_, **__: None)
        for at, writer in enumerate(writers):
            writer.write(rows(at))
            writer.commit()
    return writers


def test_many_writers_need_one_snapshot_and_one_segment_of_markers(tmp_path: Path, monkeypatch) -> None:
    table = make(tmp_path, ", 'log-store.type' = 'files'", key="")
    writers, made, create = decided(table, monkeypatch, 8), [], LocalFileIO.create

    def noted(io: LocalFileIO, path: str, data: bytes) -> bool:
        made.append(path.split("/")[-2])
        return create(io, path, data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileIO, "create", noted)
        seal(writers[3]._committer)  # type: ignore[arg-type]
    assert (made.count("snapshot"), made.count("segments")) == (1, 1)
    for writer in writers:
        writer.close()
    assert table.latest_snapshot().id == 1
    assert [row[0] for row in files(table)] == [row[0] for row in folded(table)] == told(table) == list(range(8))
    assert table.logical.registered.writers() == []


def test_a_snapshot_of_another_sealer_with_the_same_last_epoch_counts_for_its_epochs_only(
    tmp_path: Path, monkeypatch
) -> None:
    """A listing of the lanes is not atomic, so two sealers that end with the same epoch may have different ones."""
    table, create = make(tmp_path, key=""), LocalFileIO.create
    (one, other), is_first = decided(table, monkeypatch, 2), [True]
    missed = one._writer

    def after_another(io: LocalFileIO, path: str, data: bytes) -> bool:
        if "/snapshot/snapshot-" not in path or not is_first:
            return create(io, path, data)
        is_first.clear()
        with monkeypatch.context() as patched:
            found = type(table.logical.decided).all
            patched.setattr(
                "lakelog.table.model.decided_epochs.DecidedEpochs.all",
                lambda decided: [record for record in found(decided) if record.writer != missed],
            )
            assert seal(other._committer) is not None  # type: ignore[arg-type]
        return create(io, path, data)

    monkeypatch.setattr(LocalFileIO, "create", after_another)
    made = seal_staged(table.logical)
    assert [snapshot.id for snapshot in made] == [2]
    assert [row[0] for row in files(table)] == [row[0] for row in folded(table)] == told(table) == [0, 1]
    assert table.logical.decided.all() == []
    for writer in (one, other):
        writer.close()


def test_a_listing_that_misses_an_epoch_of_a_lane_loses_none(tmp_path: Path, monkeypatch) -> None:
    table = make(tmp_path, key="")
    (writer,) = decided(table, monkeypatch, 1)
    with monkeypatch.context() as patched:
        patched.setattr("lakelog.table.write.table_writer.seal_in_turn", lambda *_, **__: None)
        for at in (1, 2):
            writer.write(rows(at))
            writer.commit()
    listed: Callable[[LocalFileIO, str], list] = LocalFileIO.list
    with monkeypatch.context() as patched:
        patched.setattr(
            LocalFileIO,
            "list",
            lambda io, path: [s for s in listed(io, path) if not s.name.endswith(("-" + "0" * 19, f"-{1:019d}"))],
        )
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]
        assert len(seal_staged(table.logical)) == 1
    writer.close()
    assert [row[0] for row in files(table)] == [row[0] for row in folded(table)] == told(table) == [0, 1, 2]


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_one_writer_after_the_other_takes_no_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    table = make(tmp_path, key=key)
    takes: list[object] = []
    take = seal_turn._take
    monkeypatch.setattr(seal_turn, "_take", lambda table: takes.append(table) or take(table))
    for number in range(3):
        with table.writer() as writer:
            writer.write(rows(number))
    assert takes == []
    assert len(table.scan().to_arrow()) == 3
