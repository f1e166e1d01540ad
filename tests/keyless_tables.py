"""Small tables without a key, with a log of input rows, and what all their readers must find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from changelogs import added_up
from lakelog import connect
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table

Rows = list[tuple[int, str]]
LOGS = {
    "embedded": "'bucket' = '2', 'bucket-key' = 'id'",
    "files": "'log-store.type' = 'files', 'log-store.data-format' = 'debezium-json'",
    "other partitions": "'log-store.partitions' = '3', 'bucket' = '2', 'bucket-key' = 'id'",
}
_SCHEMA = pa.schema([("id", pa.int32()), ("p", pa.string())])
OLD: Rows = [(1, "a"), (1, "a"), (2, "a"), (3, "b"), (4, "b")]


def make(tmp_path: Path, log: str = "embedded", more: str = "") -> tuple[Lake, Table]:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, p string) using lakelog partitioned by (p) "
        f"tblproperties ('log-store.enabled' = 'true', {LOGS[log]}{more})"
    )
    table = lake.table("db.t")
    write(table, OLD[:2])
    write(table, OLD[2:])
    return lake, table


def write(table: Table, rows: Rows, **how: Any) -> None:
    table.write(arrow(rows), **how)


def arrow(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "p": p} for n, p in rows], _SCHEMA)


def files(table: Table, **options: str) -> Rows:
    return sorted((row["id"], row["p"]) for row in table.scan(options=options).to_arrow().to_pylist())


def folded(table: Table, start: str = "earliest", **options: str) -> Rows:
    """The rows that a reader of the log has at its end."""
    found = added_up(table.tail(start, stop="latest", options=options))
    assert not any(count < 0 for count in found.values()), found
    return sorted(found.elements())


COMMITTED = {"log.consistency": "transactional"}


def check(table: Table, wanted: Rows) -> None:
    """What all readers find, and that no writer is left."""
    wanted = sorted(wanted)
    assert files(table) == files(table, **{"read.mode": "union"}) == wanted
    for start in ("earliest", "latest-full"):
        assert folded(table, start) == folded(table, start, **COMMITTED) == wanted
    assert not any(name.startswith("replace-") for name in table.logical.registered.writers())
