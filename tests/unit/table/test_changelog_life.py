"""Changelogs that outlive their snapshots: kept, read, expired; consumers hold them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import NotFound
from lakelog.lake.table import Table

KEPT = {
    "snapshot.num-retained.min": 1,
    "snapshot.num-retained.max": 1,
    "changelog.num-retained.min": 1,
    "changelog.num-retained.max": 4,
    "bucket": 1,
}


def make(warehouse: Path, producer: str, turns: int = 6, **options: object) -> Table:
    """A table to which ``turns`` snapshots were written: key 1 is the number of the snapshot, key 2 comes and goes."""
    lake = connect(warehouse=str(warehouse))
    lake.sql("create database db")
    given = {**KEPT, "changelog-producer": producer, "write-only": "true", **options}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    lake.sql(f"create table db.t (id int, v int, primary key (id)) using lakelog tblproperties ({listed})")
    for turn in range(1, turns + 1):
        kinds = ["+U", "+I" if turn % 2 else "-D"]
        lake.table("db.t").write(pa.table({"id": pa.array([1, 2], pa.int32()), "v": [turn, turn], "_row_kind": kinds}))
    return lake.table("db.t")


def told(rows: pa.Table) -> list[tuple[str, int, int]]:
    return [(row["_row_kind"], row["id"], row["v"]) for row in rows.to_pylist()]


def expected(first: int, last: int) -> list[tuple[str, int, int]]:
    changes = [[("+U", 1, turn), ("+I" if turn % 2 else "-D", 2, turn)] for turn in range(first, last + 1)]
    return [change for turn in changes for change in turn]


def streamed(table: Table, first: int | None, options: Mapping[str, str] | None = None) -> list[tuple[str, int, int]]:
    return [row for plan in table.stream_plan(from_snapshot=first, options=options) for row in told(plan.to_arrow())]


@pytest.mark.parametrize("producer", ["input", "none"])
def test_changes_are_read_after_their_snapshots_expired(tmp_path: Path, producer: str) -> None:
    table = make(tmp_path, producer)
    assert table.expire_snapshots() == [1, 2, 3, 4, 5]
    assert streamed(table, 3) == expected(3, 6)
    assert streamed(table, None, {"scan.mode": "earliest"}) == expected(3, 6)
    assert streamed(table, None, {"scan.snapshot-id": "4"}) == expected(4, 6)
    assert streamed(table, None, {"scan.timestamp-millis": "0"}) == expected(3, 6)
    assert sorted(told(table.scan(incremental_between=(2, 5)).to_arrow())) == sorted(expected(3, 5))
    with pytest.raises(NotFound, match="expired before this stream read it"):
        streamed(table, 2)
    with pytest.raises(NotFound, match="it has snapshots 3 to 6"):
        table.scan(incremental_between=(1, 5)).to_arrow()


@pytest.mark.parametrize("producer", ["input", "none"])
def test_nothing_is_left_of_a_changelog_that_has_expired(tmp_path: Path, producer: str) -> None:
    table = make(tmp_path, producer)
    table.expire_snapshots()
    directory = tmp_path / "db.db" / "t"
    assert sorted(p.name for p in (directory / "changelog").glob("changelog-*")) == [
        "changelog-3",
        "changelog-4",
        "changelog-5",
    ]
    if producer == "input":
        assert len(list((directory / "bucket-0").glob("changelog-*"))) == 4
    assert table.remove_orphan_files(timedelta(0)).files == ()
    assert streamed(table, 3) == expected(3, 6)
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "v": 6}]


def test_a_consumer_of_changelogs_only_retains_no_snapshots(tmp_path: Path) -> None:
    table = make(tmp_path, "input", 3, **{"consumer.changelog-only": "true"})
    table.logical.store.consumers.record("c", 2)
    with table.writer() as writer:
        for turn in range(4, 9):
            writer.write(pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([turn], pa.int32())}))
            writer.commit()
    table.expire_snapshots()
    assert table.logical.store.snapshots.ids() == [8]
    found = streamed(table, None, {"consumer-id": "c"})
    assert found == [*expected(2, 3), *(("+I", 1, turn) for turn in range(4, 9))]
    table.logical.store.consumers.record("c", 8)
    table.expire_snapshots()
    assert streamed(table, None, {"scan.mode": "earliest"}) == [("+I", 1, turn) for turn in range(5, 9)]
