from __future__ import annotations

from datetime import timedelta

import pytest

from lakelog.errors import InvalidRequest, NotFound
from lakelog.filestore.gc.expiry import Retention
from lakelog.filestore.gc.partition_expiry import PartitionRule
from lakelog.io.storage.local import LocalFileIO

PARTITION = b"\x00" * 12


def test_only_old_unreferenced_files_are_deleted(make_table) -> None:
    table = make_table()
    table.insert((0, 1, "a", 1.0))
    left = table.staged((0, 2, "b", 1.0))[0].new_files[0]
    path = f"{table.store.paths.bucket_dir(PARTITION, 0)}/{left.file_name}"
    assert table.store.remove_orphans().files == ()  # a day old at least
    assert table.store.remove_orphans(0, staged=lambda: [path]).files == ()
    found = table.store.remove_orphans(0, dry_run=True)
    assert (found.files, found.bytes) == ((path,), left.file_size)
    assert table.store.io.exists(path)
    assert table.store.remove_orphans(0) == found
    assert not table.store.io.exists(path)
    assert table.ids() == [1]
    with pytest.raises(InvalidRequest):
        table.store.remove_orphans(-1)


class WithoutCache(LocalFileIO):
    """Equal to no other storage, so nothing that was read through another one is remembered."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def test_nothing_goes_when_a_manifest_is_missing(make_table, tmp_path) -> None:
    table = make_table(io=LocalFileIO(), path=str(tmp_path / "t"))
    snapshot = table.insert((0, 1, "a", 1.0))
    table.staged((0, 2, "b", 1.0))
    table.store.io.delete(table.store.paths.manifest(snapshot.delta_manifest_list))
    before = sorted(tmp_path.rglob("*"))
    fresh = make_table(io=WithoutCache(), path=str(tmp_path / "t")).store
    with pytest.raises(NotFound):
        fresh.remove_orphans(0)
    assert sorted(tmp_path.rglob("*")) == before


def test_temporary_files_and_empty_directories_go(make_table, tmp_path) -> None:
    columns = (("id", "INT NOT NULL"), ("name", "STRING"), ("day", "STRING NOT NULL"))
    table = make_table(("id", "day"), ("day",), columns, io=LocalFileIO(), path=str(tmp_path / "t"))
    table.insert((0, 1, "a", "x"), (0, 2, "b", "y"))
    table.store.expire_partitions(_everything())
    table.store.expire_snapshots(Retention(1, 1, timedelta(hours=1), 9))
    temporary = tmp_path / "t" / "snapshot" / ".snapshot-9.0123456789abcdef.tmp"
    temporary.write_bytes(b"{")
    stray = tmp_path / "t" / "notes"
    stray.mkdir()
    table.store.remove_orphans(0)
    assert not temporary.exists()
    assert stray.exists()
    assert not [p.name for p in (tmp_path / "t").iterdir() if p.name.startswith("day=")]


def _everything():
    return PartitionRule(timedelta(0), "update-time", None, None, 100)


def test_a_snapshot_above_a_gap_is_no_part_of_the_history_and_is_cleaned(make_table) -> None:
    table = make_table()
    for n in (1, 2, 3, 4):
        table.insert((0, n, "a", 1.0))
    paths, io = table.store.paths, table.store.io
    stray = io.read(paths.snapshot(4))
    for n in (4, 3):  # a rollback by another engine
        io.delete(paths.snapshot(n))
    table.store.snapshots.write_hint("LATEST", 2)
    # a process that was about to find out that expiry had freed its number dies
    io.create(paths.snapshot(4), stray)
    assert table.store.snapshots.chain_ids() == [1, 2]
    table.store.expire_snapshots(Retention(1, 1, timedelta(0), 50))
    table.store.remove_orphans(0)
    assert table.store.snapshots.ids() == [2]
    assert table.ids() == [1, 2]
