"""Tables that keep rejected rows, for tests of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakelog import connect
from lakelog.lake.table import Table
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from log_tables import log_of

KEEP = "'on-bad-record' = 'keep'"
LOG = "'log-store.enabled' = 'true', 'commit.interval' = '1 ms'"
JSON_LOG = f"{LOG}, 'log-store.data-format' = 'debezium-json'"
"""For tests that append records of another producer."""
KEY = ", primary key (id)"


def make(place: Path, options: str = LOG, columns: str = "id int, name string", key: str = KEY) -> Table:
    lake = connect(warehouse=str(place / "warehouse"))
    lake.sql(f"create table db.t ({columns}{key}) using lakelog tblproperties ('bucket' = '2', {KEEP}, {options})")
    return lake.table("db.t")


def rejected(table: Table, *columns: str) -> list[dict[str, object]]:
    path = table.path.removesuffix("/db.db/t")
    return connect(warehouse=path).table("db.t$rejected").scan(columns or ["reason"]).to_arrow().to_pylist()


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def given(*values: int | None, name: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int32()), "name": [name] * len(values)})


def append(table: Table, bucket: int, *values: bytes) -> list[int]:
    """Records of another producer in the log; their offsets."""
    log = log_of(table)
    nothing = pa.nulls(len(values), pa.large_binary())
    appender = appender_for(log)
    done = appender.append(bucket, Records(nothing, pa.array(values, pa.large_binary()), UNOWNED_HEADER))
    appender.flush()
    return done.offsets().to_pylist()


def inserted(number: int) -> bytes:
    return b'{"before":null,"after":{"id":%d,"name":"a"},"op":"c"}' % number


def reopened(place: Path, change: str = "") -> Table:
    """The table of ``make``, after an ALTER TABLE."""
    lake = connect(warehouse=str(place / "warehouse"))
    if change:
        lake.sql(f"alter table db.t {change}")
    return lake.table("db.t")
