"""Every storage call of a backup, a restore and a replica: the process dies, and what was there before is whole."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from depth import Depth
from faults import DEATHS, Died, FaultPlan, FaultyFileIO
from lakelog import connect
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.errors import AlreadyExists, Fenced
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake.lake import Lake
from lakelog.table.copies.backup import back_up
from lakelog.table.copies.backup_store import BackupStore
from lakelog.table.copies.replica import REPLICA_OF, Replica, open_replica
from lakelog.table.copies.replication import promote
from lakelog.table.copies.restore import restore_into, restore_new
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.open import identifier_of

Rows = Counter[tuple[object, ...]]


def rows(lake: Lake, name: str) -> Rows:
    return Counter(tuple(row.values()) for row in lake.table(name).scan().to_arrow().to_pylist())


def write(lake: Lake, *ids: int, v: str) -> None:
    lake.table("db.t").write(pa.table({"id": pa.array(ids, pa.int32()), "v": [v] * len(ids)}))


def make(place: Path) -> tuple[Lake, str, Rows]:
    """A table with a log and two states, the first one in a backup; the rows of that point."""
    lake, backup = connect(str(place / "w")), str(place / "backup")
    options = {"bucket": "1", "log-store.enabled": "true", "log.writer-timeout": "1 h"}
    lake.create_table("db.t", {"id": "int", "v": "string"}, primary_key="id", options=options)
    write(lake, 1, 2, 3, v="a")
    lake.backup("db.t", backup)
    before = rows(lake, "db.t")
    write(lake, 2, 4, v="b")
    lake.table("db.t").compact(full=True)
    return lake, backup, before


def end_leases(backup: str) -> None:
    """The process that had the lease is gone; here it is this one, which is not."""
    shutil.rmtree(Path(backup) / "lakelog/leases", ignore_errors=True)


def faulty(place: str, plan: FaultPlan) -> BackupStore:
    store = BackupStore.at(place)
    return replace(store, io=FaultyFileIO(store.io, plan))


def backed_up(place: Path, plan: FaultPlan) -> None:
    lake, backup, before = make(place)
    table = lake.table("db.t").logical
    dying = DynamicTable(replace(table.location, io=FaultyFileIO(table.io, plan)))
    try:
        back_up(dying, faulty(backup, plan), keep=2)
    except Died:
        end_leases(backup)
        first = lake.backup_points(backup, check=True)[0]
        lake.restore(backup, "db.first", snapshot_id=first.snapshot)
        assert rows(lake, "db.first") == before
    now = rows(lake, "db.t")
    lake.backup("db.t", backup, keep=1)
    points = lake.backup_points(backup, check=True)
    assert len(points) == 1
    lake.restore(backup, "db.second")
    assert rows(lake, "db.second") == now
    left = {str(f.relative_to(place / "backup/files")) for f in (place / "backup/files").rglob("*") if f.is_file()}
    assert left == set(points[0].files)
    assert [tag.name for tag in lake.table("db.t").tags()] == []


def restored(place: Path, plan: FaultPlan) -> None:
    lake, backup, before = make(place)
    warehouse = str(place / "w")
    catalog = FilesystemCatalog(warehouse, FaultyFileIO(LocalFileIO(), plan))
    store = BackupStore.at(backup)
    (point,) = store.points()
    name = identifier_of("db.r")
    try:
        restore_new(catalog, name, store, point, {})
    except Died:
        if lake.table_exists("db.r"):
            assert rows(lake, "db.r") in (Counter(), before)
        try:
            lake.restore(backup, "db.r")
        except AlreadyExists:
            assert rows(lake, "db.r") == before
    assert rows(lake, "db.r") == before
    lake.table("db.r").compact(full=True)
    lake.table("db.r").remove_orphan_files(older_than="0 s")
    assert rows(lake, "db.r") == before


def restored_in_place(place: Path, plan: FaultPlan) -> None:
    lake, backup, before = make(place)
    lake.table("db.t").expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    now = rows(lake, "db.t")
    table, store = lake.table("db.t").logical, BackupStore.at(backup)
    (point,) = store.points()
    dying = DynamicTable(replace(table.location, io=FaultyFileIO(table.io, plan)))
    try:
        restore_into(dying, store, point, files_only=True)
    except Died:
        assert rows(lake, "db.t") in (now, before)
        restore_into(table, store, point, files_only=True)
    assert rows(lake, "db.t") == before
    assert [tag.name for tag in lake.table("db.t").tags()] == []


def replicated(place: Path, plan: FaultPlan) -> None:
    lake, _, _ = make(place)
    source = lake.table("db.t").logical
    steps = [rows(lake, "db.t")]
    second = connect(str(place / "second"))
    catalog = FilesystemCatalog(str(place / "second"), FaultyFileIO(LocalFileIO(), plan))
    try:
        for number in range(3):
            if number == 2:  # the second copy follows, the third one has missed snapshots
                end_consumers(source)
                lake.table("db.t").expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
            replica = Replica(source, open_replica(catalog, identifier_of("db.t"), source))
            list(replica.copy_next())
            write(lake, 10 + number, v="c")
            write(lake, 20 + number, v="c")
            lake.table("db.t").compact(full=True)
            steps.append(rows(lake, "db.t"))
    except Died:
        if second.table_exists("db.t"):
            assert set(rows(second, "db.t")) <= {row for step in (*steps, rows(lake, "db.t")) for row in step}
    list(Replica(source, open_replica(plain(place), identifier_of("db.t"), source)).copy_next())
    assert rows(second, "db.t") == rows(lake, "db.t")
    second.table("db.t").expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    second.table("db.t").remove_orphan_files(older_than="0 s")
    assert rows(second, "db.t") == rows(lake, "db.t")


def end_consumers(table: DynamicTable) -> None:
    for consumer in table.store.consumers.list():
        table.store.consumers.delete(consumer.name)


def plain(place: Path) -> FilesystemCatalog:
    return FilesystemCatalog(str(place / "second"), LocalFileIO())


def promoted(place: Path, plan: FaultPlan) -> None:
    lake, _, _ = make(place)
    source = lake.table("db.t").logical
    list(Replica(source, open_replica(plain(place), identifier_of("db.t"), source)).copy_next())
    second, before = connect(str(place / "second")), rows(lake, "db.t")
    catalog = FilesystemCatalog(str(place / "second"), FaultyFileIO(LocalFileIO(), plan))
    try:
        promote(catalog, identifier_of("db.t"), {})
    except Died:
        assert rows(second, "db.t") == before
        if REPLICA_OF in second.table("db.t").options:
            second.promote("db.t")
    second.table("db.t").write(pa.table({"id": pa.array([99], pa.int32()), "v": ["new"]}))
    after = before + Counter({(99, "new"): 1})
    assert rows(second, "db.t") == after
    assert (
        Counter(
            tuple(r.values()) for r in second.table("db.t").scan(options={"read.mode": "union"}).to_arrow().to_pylist()
        )
        == after
    )
    with pytest.raises((AlreadyExists, Fenced)):
        list(Replica(source, open_replica(plain(place), identifier_of("db.t"), source)).copy_next())


@pytest.mark.timeout(3600)  # all points of a night, on a busy machine
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("job", [backed_up, restored, restored_in_place, replicated, promoted])
def test_a_death_at_any_storage_call_leaves_points_and_tables_whole(tmp_path, job, death, depth: Depth) -> None:
    whole = FaultPlan()
    job(tmp_path / "whole", whole)
    assert len(whole.calls) > 4
    for call in depth.some(whole.calls):
        plan = FaultPlan({call.number: death})
        job(tmp_path / str(call.number), plan)
        assert plan.hit
