"""The power fails at every call of small commits of an open writer: acknowledged rows are all there, and none twice."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from depth import Depth
from lakelog import Table, connect
from lakelog.filestore.metadata.manifests import MANIFEST_CACHE
from lakelog.logstore.clients import close_clients
from lakelog.table.write.table_writer import TableWriter
from log_tables import files, make, rows, silence
from power_loss import Disk

KEYS = pytest.mark.parametrize("key", ["", ", primary key (id)"], ids=["no key", "key"])
COMMITS = 3


def commits(table: Table, writer: TableWriter, acknowledged: list[int]) -> None:
    """Small commits: the first is a snapshot, the others share one."""
    for number in range(COMMITS):
        writer.write(rows(2 * number, 2 * number + 1))
        writer.commit()
        acknowledged += [2 * number, 2 * number + 1]
    table.seal()


def run(place: Path, key: str, dies_at: int, dice: Random) -> int:
    """One power loss; the number of calls before it."""
    table = make(place, ", 'commit.interval' = '1 h', 'write-only' = 'true'", key=key)
    disk, writer, acknowledged = Disk(place, dies_at), table.writer(), list[int]()
    with disk.powered():
        commits(table, writer, acknowledged)
    close_clients()
    disk.lose(dice)
    MANIFEST_CACHE.clear()
    after = connect(warehouse=str(place / "warehouse")).table("db.t")
    for name in after.logical.registered.all():
        silence(after, name)
    check(after, acknowledged)
    with after.writer() as next_writer:  # takes over, and seals what the other one has decided
        next_writer.write(rows(99))
    after.seal()
    check(after, [*acknowledged, 99])
    for snapshot in after.snapshots():
        files(after, **{"scan.snapshot-id": str(snapshot.id)})
    return disk.calls


def check(table: Table, acknowledged: list[int]) -> None:
    """All acknowledged rows once, and the open commit whole or not at all."""
    found = [number for number, _ in files(table)]
    assert set(found) >= set(acknowledged) and len(set(found)) == len(found)
    assert len([number for number in found if number < 99]) % 2 == 0


@KEYS
def test_a_power_loss_at_any_call_of_small_commits_loses_no_row(tmp_path: Path, key: str, depth: Depth) -> None:
    calls = run(tmp_path / "whole", key, 0, Random(0))
    assert calls > 20
    for at in depth.some(range(1, calls + 1)):
        run(tmp_path / str(at), key, at, Random(at))
