"""A replica follows the snapshots of its source, is read only, and becomes a table of its own once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import AlreadyExists, Fenced, InvalidRequest, Unavailable, UnsupportedFeature
from lakelog.io.storage.delegating import DelegatingFileIO
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.options.metrics import REPLICA_LAG
from lakelog.service.metrics.table_gauges import health_samples
from lakelog.table.copies.replica import Replica
from lakelog.table.copies.replication import Replication
from lakelog.table.health.score import REPLICA_BEHIND
from lakelog.table.model.dynamic_table import DynamicTable

LOG = {"log-store.enabled": "true"}
TABLES: dict[str, tuple[bool, dict[str, str]]] = {
    "key": (True, {}),
    "key, vectors": (True, {"deletion-vectors.enabled": "true"}),
    "key, changelog": (True, {"changelog-producer": "lookup"}),
    "key, log": (True, LOG),
    "key, log of changes": (True, {**LOG, "log.content": "changes"}),
    "key, log in files": (True, {**LOG, "log-store.type": "files"}),
    "key, partitioned log": (True, {**LOG, "bucket": "4", "log-store.partitions": "2"}),
    "no key, log": (False, LOG),
    "no key": (False, {}),
}


def make(place: Path, keyed: bool, options: dict[str, str]) -> tuple[Lake, Table]:
    lake = connect(str(place / "w"))
    given = {"bucket": "2", **({} if keyed else {"bucket-key": "id"}), **options}
    key = "id" if keyed else None
    return lake, lake.create_table("db.t", {"id": "int", "v": "string"}, primary_key=key, options=given)


def write(table: Table, *ids: int, v: str = "a") -> None:
    table.write(pa.table({"id": pa.array(ids, pa.int32()), "v": [v] * len(ids)}))


def rows(table: Table, **scan: Any) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.scan(**scan).to_arrow().to_pylist())


def copy(lake: Lake, place: Path) -> Lake:
    """Brings the replica to the newest state; returns the other warehouse."""
    list(lake.replicate("db.t", str(place / "second"), stop="latest"))
    return connect(str(place / "second"))


@pytest.mark.parametrize("name", TABLES)
def test_a_replica_has_each_snapshot_and_goes_on_as_a_table(tmp_path: Path, name: str) -> None:
    keyed, options = TABLES[name]
    lake, table = make(tmp_path, keyed, options)
    write(table, 1, 2, 3)
    second = copy(lake, tmp_path)
    assert rows(second.table("db.t")) == rows(table)
    write(table, 2, 4, v="b")
    table.compact(full=True)
    table.delete("id = 1")
    write(table, 5)
    second = copy(lake, tmp_path)
    assert rows(second.table("db.t")) == rows(table)
    assert second.table("db.t").snapshots()[-1].id == table.snapshots()[-1].id
    for snapshot in second.table("db.t").snapshots():
        assert rows(second.table("db.t"), snapshot_id=snapshot.id) == rows(table, snapshot_id=snapshot.id)
    wanted = rows(table)
    second.promote("db.t")
    promoted = second.table("db.t")
    assert rows(promoted) == wanted
    write(promoted, 9, 2, v="z")
    promoted.compact(full=True)
    now = rows(promoted)
    assert sum(now.values()) > sum(wanted.values())
    if "log-store.enabled" in options:
        assert rows(promoted, options={"read.mode": "union"}) == now
    promoted.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    promoted.remove_orphan_files(older_than="0 s")
    assert rows(promoted) == now
    with pytest.raises((Fenced, AlreadyExists)):
        copy(lake, tmp_path)


def test_snapshots_that_have_expired_are_passed_over(tmp_path: Path) -> None:
    lake, table = make(tmp_path, True, {**LOG, "deletion-vectors.enabled": "true"})
    write(table, 1, 2)
    second = copy(lake, tmp_path)
    consumers = table.logical.store.consumers
    assert [consumer.name[:8] for consumer in consumers.list()] == ["replica-"]
    consumers.delete(consumers.list()[0].name)
    for number in range(5):
        write(table, number, v="b")
    table.compact(full=True)
    write(table, 7)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert rows(copy(lake, tmp_path).table("db.t")) == rows(table)
    for number in range(3):
        write(table, 100 + number)
        table.compact(full=True)
    second = copy(lake, tmp_path)
    assert rows(second.table("db.t")) == rows(table)
    replica = second.table("db.t")
    replica.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    replica.remove_orphan_files(older_than="0 s")
    assert rows(replica) == rows(table)


def test_a_replica_follows_alter_table(tmp_path: Path) -> None:
    lake, table = make(tmp_path, True, LOG)
    write(table, 1)
    copy(lake, tmp_path)
    lake.sql("alter table db.t add column more int")
    lake.table("db.t").write(pa.table({"id": pa.array([2], pa.int32()), "v": ["b"], "more": pa.array([5], pa.int32())}))
    second = copy(lake, tmp_path)
    assert rows(second.table("db.t")) == Counter({(1, "a", None): 1, (2, "b", 5): 1})
    second.promote("db.t", {"log-store.type": "files"})
    second.sql("alter table db.t add column last int")
    assert second.table("db.t").schema.names == ["id", "v", "more", "last"]


def test_only_the_process_that_copies_writes_a_replica(tmp_path: Path) -> None:
    lake, table = make(tmp_path, True, LOG)
    write(table, 1)
    second = copy(lake, tmp_path)
    replica = second.table("db.t")
    for refused in (
        lambda: write(replica, 2),
        lambda: replica.delete("id = 1"),
        lambda: replica.compact(),
        lambda: replica.rollback_to(snapshot_id=1),
        lambda: second.sql("insert into db.t values (5, 'x')"),
        lambda: second.sql("alter table db.t add column c int"),
        lambda: second.sql("call sys.compact(table => 'db.t')"),
    ):
        with pytest.raises(UnsupportedFeature, match="the table is a replica"):
            refused()
    with pytest.raises(InvalidRequest, match="is no replica"):
        lake.promote("db.t")
    second.create_table("db.other", {"id": "int"})
    with pytest.raises(AlreadyExists, match="is no replica"):
        list(lake.replicate("db.t", str(tmp_path / "second"), replica="db.other", stop="latest"))
    lake.create_table("db.u", {"id": "int"})
    with pytest.raises(InvalidRequest, match="replica of another table"):
        list(lake.replicate("db.u", str(tmp_path / "second"), replica="db.t", stop="latest"))


@pytest.mark.parametrize("gap", [False, True])
def test_a_promotion_fences_a_process_that_was_suspended(tmp_path: Path, gap: bool) -> None:
    """It has read the snapshot of the source and copied its files, and is to create that of the replica."""
    lake, table = make(tmp_path, True, LOG)
    write(table, 1)
    second = copy(lake, tmp_path)
    stale = Replica(lake.table("db.t").logical, second.table("db.t").logical)
    write(table, 2)
    if gap:
        consumers = table.logical.store.consumers
        consumers.delete(consumers.list()[0].name)
        write(table, 3)
        table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    check = stale._check_marked
    looks = iter(range(100))

    def promoted_after_the_check() -> None:
        check()
        if next(looks) == 1:
            second.promote("db.t")
            write(second.table("db.t"), 9)

    stale._check_marked = promoted_after_the_check  # type: ignore[method-assign]
    with pytest.raises(Fenced, match="no longer a replica"):
        list(stale.copy_next())
    assert rows(second.table("db.t")) == Counter({(1, "a"): 1, (9, "a"): 1})


@dataclass(frozen=True)
class Partitioned(DelegatingFileIO):
    """A storage that a partition of the network hides while an event is set."""

    away: threading.Event

    def read(self, path: str) -> bytes:
        if self.away.is_set():
            raise Unavailable("the network is partitioned")
        return self.inner.read(path)


def test_a_replica_tries_again_while_a_storage_does_not_answer(tmp_path: Path) -> None:
    lake, table = make(tmp_path, True, LOG)
    write(table, 1)
    second = copy(lake, tmp_path)
    away, stop = threading.Event(), threading.Event()
    logical = lake.table("db.t").logical
    hidden = DynamicTable(replace(logical.location, io=Partitioned(logical.io, away)))
    steps: Iterator[Any] = Replication(Replica(hidden, second.table("db.t").logical)).run(stop)
    write(table, 2)
    assert next(steps).error == ""
    away.set()
    write(table, 3)
    failed = next(steps)
    assert "partitioned" in failed.error
    assert next(steps).lag_s >= failed.lag_s
    away.clear()
    while (step := next(steps)).error:
        pass
    stop.set()
    assert step.snapshot == table.snapshots()[-1].id
    assert rows(second.table("db.t")) == rows(table)


def test_health_and_metrics_tell_the_lag(tmp_path: Path) -> None:
    lake, table = make(tmp_path, True, LOG)
    write(table, 1)
    second = copy(lake, tmp_path)
    health = second.health("db.t")
    assert health.figures is not None and health.figures.replica is not None
    lag_s = next(sample.value for sample in health_samples(health) if sample.metric is REPLICA_LAG)
    assert 0 <= lag_s < 120
    report = health.figures.replica
    later = replace(health.figures, looked_ms=report.complete_ms + 31_000)
    from lakelog.table.health.score import pick_findings

    assert [finding.kind for finding in pick_findings(later, ())] == [REPLICA_BEHIND]
    assert health.needs == ()
    second.promote("db.t")
    promoted = second.health("db.t")
    assert promoted.figures is not None and promoted.figures.replica is None
