"""Tables with a log whose number of buckets is not that of the log's partitions (RFC 18)."""

from __future__ import annotations

from pathlib import Path

from lakelog import connect
from lakelog.filestore.skipping.predicate import Compare
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from log_tables import files, folded

IDS = tuple(range(40))
DYNAMIC = "'bucket' = '-1', 'log-store.partitions' = '3', 'dynamic-bucket.target-row-num' = '9'"
KINDS = {
    "more buckets": "'bucket' = '2'",
    "one log partition": "'bucket' = '4', 'log-store.partitions' = '1'",
    "no common divisor": "'bucket' = '2', 'log-store.partitions' = '3'",
    "dynamic buckets": DYNAMIC,
}


def make(tmp_path: Path, kind: str, more: str = "", key: str = ", primary key (id)") -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (id int, name string{key}) using lakelog tblproperties ('log-store.enabled' = 'true', "
        f"{KINDS.get(kind, kind)}{more})"
    )
    return lake.table("db.t")


def lake_of(table: Table) -> Lake:
    return connect(warehouse=table.logical.path.split("/db.db/")[0])


def change_buckets(table: Table, number: int) -> Table:
    lake = lake_of(table)
    lake.sql(f"alter table db.t set tblproperties ('bucket' = '{number}')")
    return lake.table("db.t")


def check(table: Table, wanted: dict[int, str]) -> None:
    """All ways to read the table, as one that is opened now."""
    table = lake_of(table).table("db.t")
    rest = sorted(wanted.items())
    assert folded(table) == rest
    assert files(table) == rest
    assert files(table, **{"read.mode": "union"}) == rest
    for key in (0, 7, 39):
        found = table.scan(options={"read.mode": "union"}).where(Compare("id", "=", key)).to_arrow()["name"].to_pylist()
        assert found == [name for number, name in rest if number == key]
    table.seal()
    assert files(table) == rest


def buckets_of(table: Table) -> set[tuple[int, int]]:
    """The buckets of the files, each with the number of buckets of its partition."""
    return {(e.bucket, e.total_buckets) for e in table.logical.store.live_entries(table.latest_snapshot())}
