"""A process is suspended before it creates a snapshot, its table is dropped and created again, and it dies behind it.

The new table then has a snapshot of the old one. It has to be an empty commit to all who work with the new table.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakelog.filestore.commit.commit import TableCommit
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot
from two_lakes import files, stores, write

_LOG = " tblproperties ('log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json')"
_LOGS = pytest.mark.parametrize("log", [_LOG, ""], ids=["log", "no log"])
_COLUMNS = "(id int, v string, primary key (id))"


class Died(BaseException):
    """The process is killed."""


def haunted(lakes: tuple[Lake, Lake], log: str, before: int) -> Table:
    """A new table with so many snapshots, and behind them one of the table that had its name."""
    service, owner = lakes
    service.sql(f"create table db.x {_COLUMNS} {log}")
    for number in range(before):
        write(service.table("db.x"), number, "old")
    create = TableCommit._create

    def suspended(commit: TableCommit, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        patched.undo()
        owner.sql("drop table db.x")
        owner.sql(f"create table db.x {_COLUMNS} {log}")
        for number in range(before):
            write(owner.table("db.x"), number, "new")
        assert create(commit, snapshot, entries)
        raise Died

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TableCommit, "_create", suspended)
        with pytest.raises(Died):
            write(service.table("db.x"), 9, "foreign")
    table = owner.table("db.x")
    assert before + 1 in table.logical.store.snapshots.ids()
    return table


def new(count: int, *more: tuple[int, str]) -> list[tuple[int, str]]:
    return sorted([*((number, "new") for number in range(count)), *more])


@_LOGS
@pytest.mark.parametrize("before", [0, 1, 2])
def test_rows_of_the_new_table_stay_and_none_of_the_old_one_come(lakes, before: int, log: str) -> None:
    table = haunted(lakes, log, before)
    assert files(table) == new(before)
    write(table, 7, "later")
    assert stores(table) == new(before, (7, "later"))
    write(lakes[0].table("db.x"), 8, "and later")
    table.compact()
    assert stores(table) == new(before, (7, "later"), (8, "and later"))


def test_paimon_finds_only_files_of_the_new_table_after_the_next_commit(lakes) -> None:
    """A reader that does not know of identities takes the newest snapshot as it is."""
    table = haunted(lakes, "", 2)
    write(table, 7, "later")
    store = table.logical.store
    newest = Snapshot.from_json(store.io.read(store.paths.snapshot(4)))
    assert sum(e.file.row_count for e in store.manifests.live(newest)) == 3
    assert (newest.properties or {})["lakelog.table-id"] == table.logical.identity.id


def test_the_history_has_an_empty_commit_in_its_place(lakes) -> None:
    table = haunted(lakes, "", 2)
    write(table, 7, "later")
    assert sorted(r["id"] for r in table.scan(snapshot_id=3).to_arrow().to_pylist()) == [0, 1]
    assert [s.id for s in table.logical.store.snapshots.backwards()] == [4, 3, 2, 1]
    found = table.scan(incremental_between=(1, 4)).to_arrow().to_pylist()
    assert sorted(row["id"] for row in found) == [1, 7]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_expiry_keeps_the_snapshot_that_it_is_read_by(lakes, keep: int) -> None:
    table = haunted(lakes, "", 2)
    for number in range(7, 9):
        write(table, number, "later")
    lakes[1].sql(f"call sys.expire_snapshots(table => 'db.x', retain_max => {keep}, retain_min => 1)")
    ids = table.logical.store.snapshots.chain_ids()
    assert ids == {1: [5], 2: [4, 5], 3: [2, 3, 4, 5]}[keep]
    for number in ids:
        assert table.scan(snapshot_id=number).to_arrow().num_rows == {2: 2, 3: 2, 4: 3, 5: 4}[number]
    lakes[1].sql("call sys.remove_orphan_files(table => 'db.x', older_than => '2999-01-01 00:00:00')")
    assert files(table) == new(2, (7, "later"), (8, "later"))


def test_a_tag_and_a_branch_of_it_have_the_rows_before_it(lakes) -> None:
    table = haunted(lakes, "", 2)
    write(table, 7, "later")
    table.logical.store.tags.create("t", 3)
    table.logical.store.branches.create("b", snapshot_id=3)
    assert table.scan(tag="t").to_arrow().num_rows == 2
    assert table.branch("b").scan().to_arrow().num_rows == 2


def test_a_snapshot_above_a_gap_is_not_the_newest(lakes) -> None:
    """The old table had more snapshots than the new one."""
    service, owner = lakes
    table = haunted(lakes, "", 2)
    store = table.logical.store
    store.io.write(store.paths.snapshot(9), store.io.read(store.paths.snapshot(3)))
    store.io.delete(store.paths.snapshot(3))
    store.io.delete(store.paths.snapshot_hint("LATEST"))
    assert table.latest_snapshot().id == 2
    write(service.table("db.x"), 7, "later")
    assert owner.table("db.x").latest_snapshot().id == 3
    assert files(table) == new(2, (7, "later"))


def test_several_snapshots_above_a_gap_are_not_the_newest(lakes) -> None:
    """Two processes of the old table were suspended."""
    table = haunted(lakes, "", 0)
    store = table.logical.store
    for number in (2, 3):
        store.io.write(store.paths.snapshot(number), store.io.read(store.paths.snapshot(1)))
    store.io.delete(store.paths.snapshot(1))
    assert table.latest_snapshot() is None
    write(table, 1, "new")
    assert table.latest_snapshot().id == 3
    assert files(table) == new(2)[1:]


def test_an_empty_table_takes_its_first_snapshots_below_one_above_a_gap(lakes) -> None:
    """The snapshot of the old one is number 3: the new one's are 1, 2 and 4."""
    table = haunted(lakes, "", 0)
    store = table.logical.store
    store.io.write(store.paths.snapshot(3), store.io.read(store.paths.snapshot(1)))
    store.io.delete(store.paths.snapshot(1))
    assert table.latest_snapshot() is None
    assert store.snapshots.chain_ids() == []
    for number, newest in ((0, 1), (1, 3), (2, 4)):
        write(table, number, "new")
        assert files(table) == new(number + 1)
        assert table.latest_snapshot().id == newest
    assert store.snapshots.chain_ids() == [1, 2, 3, 4]


def test_a_process_that_lives_leaves_it_to_the_new_table(lakes) -> None:
    """It could delete a snapshot on which the next one is built already."""
    service, owner = lakes
    service.sql(f"create table db.x {_COLUMNS}")
    write(service.table("db.x"), 1, "old")
    create = TableCommit._create

    def suspended(commit: TableCommit, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        patched.undo()
        owner.sql("drop table db.x")
        owner.sql(f"create table db.x {_COLUMNS}")
        write(owner.table("db.x"), 0, "new")
        is_made = create(commit, snapshot, entries)
        write(owner.table("db.x"), 7, "later")
        return is_made

    table = service.table("db.x")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TableCommit, "_create", suspended)
        with pytest.raises(Exception, match="another table was created"):
            write(table, 9, "foreign")
    found = owner.table("db.x")
    assert files(found) == new(1, (7, "later"))
    assert found.logical.store.snapshots.chain_ids() == [1, 2, 3]
