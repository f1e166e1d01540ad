"""Small tables with an embedded log, and what tests of the two stores do with them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa

from changelogs import newest
from lakelog import connect
from lakelog.lake.table import Table
from lakelog.logstore.base import LogLocation, Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.record_batch.batch import parse_batches
from lakelog.logstore.record_batch.decoder import decode
from lakelog.logstore.record_batch.encoder import encode
from limits import forget_tables
from record_batches import PlainRecord, write_batch

JSON = ", 'log-store.data-format' = 'debezium-json'"
"""For tests that look into records, count them, or append records of another producer."""


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


def write(table: Table, *ids: int, name: str = "a", kinds: list[str] | None = None) -> None:
    """Writes such rows and commits them."""
    table.write(rows(*ids, name=name, kinds=kinds))


def log_of(table: Table) -> LogLocation:
    """The log of a table that has one."""
    log = table.logical.log
    assert log is not None
    return log


def files(table: Table, **options: str) -> list[tuple[int, str]]:
    """The rows that a batch read finds, sorted."""
    found = table.scan(options=options).to_arrow().to_pylist()
    return sorted((r["id"], r["name"]) for r in found)


def trim(table: Table, below: int = 2**62) -> dict[int, int]:
    """Lets the records of the log below an offset expire, by default all; where it begins now."""
    log = table.logical.log
    assert log is not None
    database = appender_for(log)._database  # type: ignore[attr-defined]
    ends = dict(database.execute("select bucket, next from ends").fetchall())
    for bucket, end in ends.items():
        expire_records(database, bucket, min(end, below))
    return {bucket: min(end, below) for bucket, end in ends.items()}


def expire_records(database: sqlite3.Connection, bucket: int, below: int) -> None:
    """Lets the records of a bucket of an embedded log before an offset expire, also within a batch."""
    cut = "select first, ts, data from batches where bucket = ? and first < ? and first + count > ?"
    rest = database.execute(cut, (bucket, below, below)).fetchone()
    database.execute("delete from batches where bucket = ? and first < ?", (bucket, below))
    database.execute("update ends set trimmed = ? where bucket = ?", (below, bucket))
    if rest is not None:
        first, time_ms, data = rest
        kept = decode(parse_batches(data)).slice(below - first)
        keys, values, headers = (kept.column(name).combine_chunks() for name in ("key", "value", "header"))
        (batch,) = encode(Records(keys, values, headers.to_pylist()), time_ms)
        row = (bucket, below, batch.count, time_ms, batch.to_bytes())
        database.execute("insert into batches (bucket, first, count, ts, data) values (?, ?, ?, ?, ?)", row)


def append_foreign(log: LogLocation, bucket: int, foreign: list[PlainRecord]) -> None:
    """Appends records to an embedded log as another producer may write them: without headers, for example.

    Their offsets count from the end of the log.
    """
    nothing = pa.nulls(len(foreign), pa.large_binary())
    appender = appender_for(log)
    first = appender.append(bucket, Records(nothing, nothing, b"")).offsets()[0].as_py()
    database = appender._database  # type: ignore[attr-defined]
    data = write_batch(foreign, 0)
    database.execute("update batches set data = ? where bucket = ? and first = ?", (data, bucket, first))


def folded(table: Table, start: str = "earliest", **options: str) -> list[tuple[int, str]]:
    """The rows that a plain consumer of the log ends with, which knows of no epochs, sorted."""
    found = newest(table.tail(start, stop="latest", options=options))
    return sorted((number, row["name"]) for number, row in found.items())


def silence(table: Table, writer: str) -> None:
    """Lets the lease of a writer run out, as that of one that died; the next write looks at the leases again."""
    registered = table.logical.registered
    registered.drop(writer)
    found = registered.find(writer)
    assert found is not None
    registered.write_lease(writer, found.kind)
    forget_tables()
