"""What a power loss leaves on a local disk: only what was synchronised, file by file and name by name."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.lake import Lake


class Disk:
    """What of a directory would outlive a power loss: the bytes of files, and the names in directories."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: set[int] = set()
        self.names: dict[str, int] = {}
        self.lost_at_snapshots: list[list[str]] = []
        self.synchronised = 0
        fsync, link = os.fsync, os.link

        def synchronise(handle: int) -> None:
            fsync(handle)
            self.synchronised += 1
            place = os.readlink(f"/proc/self/fd/{handle}")
            if os.path.isdir(place):
                self.names |= {entry.path: entry.inode() for entry in os.scandir(place)}
            else:
                self.files.add(os.fstat(handle).st_ino)

        def name(source: str, target: str) -> None:
            if "/snapshot/snapshot-" in target:
                self.lost_at_snapshots.append(self.lost(Path(target).parents[1]))
            link(source, target)

        monkeypatch.setattr(os, "fsync", synchronise)
        monkeypatch.setattr(os, "link", name)

    def lost(self, table: Path) -> list[str]:
        """The files of a table that a power loss would take, without its hints and temporary files."""
        return [
            str(path)
            for path in table.rglob("*")
            if path.is_file()
            and not path.name.startswith(".")
            and path.name not in ("LATEST", "EARLIEST")
            and (self.names.get(str(path)) != path.stat().st_ino or path.stat().st_ino not in self.files)
        ]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return connect(tmp_path)


def test_a_snapshot_that_exists_survives_a_power_loss_with_all_its_files(lake: Lake, monkeypatch) -> None:
    disk = Disk(monkeypatch)
    lake.sql("create table db.t (id bigint, v bigint, primary key (id)) using lakelog")
    for number in range(7):  # with a compaction
        lake.write(pa.table({"id": [number, number + 1], "v": [1, 2]}), "db.t")
    assert len(disk.lost_at_snapshots) > 7
    assert all(lost == [] for lost in disk.lost_at_snapshots)
    assert disk.lost(Path(lake.table("db.t").logical.store.paths.root)) == []


def test_a_commit_synchronises_each_file_and_each_directory_once(lake: Lake, monkeypatch) -> None:
    lake.sql("create table db.t (id bigint, v bigint, primary key (id)) using lakelog")
    lake.write(pa.table({"id": [1], "v": [1]}), "db.t")
    disk = Disk(monkeypatch)
    lake.write(pa.table({"id": [2], "v": [1]}), "db.t")
    # a data file, a manifest, two manifest lists, a snapshot; the directories of each
    assert disk.synchronised == 5 + 3


@pytest.mark.parametrize("left", [b"", b"\0\0", b"1", None], ids=["empty", "zeros", "old", "gone"])
@pytest.mark.parametrize("name", ["LATEST", "EARLIEST"])
def test_any_content_of_a_hint_after_a_power_loss_is_harmless(lake: Lake, name: str, left: bytes | None) -> None:
    lake.sql("create table db.t (id bigint, v bigint, primary key (id)) using lakelog")
    for number in range(3):
        lake.write(pa.table({"id": [number], "v": [number]}), "db.t")
    hint = Path(lake.table("db.t").logical.store.paths.root) / "snapshot" / name
    if left is None:
        hint.unlink()
    else:
        hint.write_bytes(left)
    lake.write(pa.table({"id": [3], "v": [3]}), "db.t")
    table = lake.table("db.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    assert table.logical.store.snapshots.latest_id() == 4
    assert table.expire_snapshots(retain_max=1, retain_min=1) == [1, 2, 3]
