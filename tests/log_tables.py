"""Small tables with an embedded log, and what tests of the two stores do with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from lakelog import connect
from lakelog.lake.table import Table
from lakelog.logstore.clients import appender_for
from lakelog.table.commit import take_over
from lakelog.table.log.lease_keeper import drop_lease


def make(tmp_path: Path, more: str = "", key: str = ", primary key (id)") -> Table:
    """A table ``db.t`` (id, name) of two buckets, with a log; ``key`` is empty for one without a primary key."""
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    buckets = "'bucket' = '2'" if key else "'bucket' = '2', 'bucket-key' = 'id'"
    lake.sql(
        f"create table db.t (id int, name string{key}) using lakelog "
        f"tblproperties ('log-store.enabled' = 'true', {buckets}{more})"
    )
    return lake.table("db.t")


def rows(*ids: int, name: str = "a", kinds: list[str] | None = None) -> pa.Table:
    """Rows of it, as changes when there are kinds."""
    table = pa.table({"id": pa.array(ids, pa.int32()), "name": [name] * len(ids)})
    return table if kinds is None else table.append_column("_row_kind", pa.array(kinds))


def files(table: Table, **options: str) -> list[tuple[int, str]]:
    """The rows that a batch read finds, sorted."""
    found = table.scan(options=options).to_arrow().to_pylist()
    return sorted((r["id"], r["name"]) for r in found)


def trim(table: Table, below: int = 2**62) -> dict[int, int]:
    """Lets the records of the log below an offset expire, by default all; where it begins now."""
    log = table.logical.log
    assert log is not None
    database = appender_for(log)._database  # type: ignore[attr-defined]
    database.execute('delete from records where "offset" < ?', [below])
    database.execute("update ends set trimmed = min(next, ?)", [below])
    return dict(database.execute("select bucket, trimmed from ends").fetchall())


def folded(table: Table, start: str = "earliest") -> list[tuple[int, str]]:
    """The rows that a plain consumer of the log ends with, which knows of no epochs, sorted."""
    found: dict[int, str] = {}
    for batch in table.tail(start, stop="latest"):
        for kind, number, name in zip(*(batch[c].to_pylist() for c in ("_row_kind", "id", "name")), strict=True):
            if kind in ("+I", "+U"):
                found[number] = name
            elif kind == "-D":
                found.pop(number, None)
    return sorted(found.items())


def silence(table: Table, writer: str) -> None:
    """Lets the lease of a writer run out, as that of one that died; the next write looks at the leases again."""
    registered = table.logical.registered
    drop_lease(table.logical, writer)
    lease = registered.lease(writer)
    assert lease is not None
    registered.write_lease(writer, replace(lease, until_ms=0))
    take_over._LOOKED.clear()
