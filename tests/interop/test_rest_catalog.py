"""One table, one REST catalog, three clients: lakelog, Apache Paimon's Java core 1.4.2 and pypaimon 2.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import Lake, connect
from lakelog.paimon.schema.changes import AddColumn
from lakelog.paimon.types.types import STRING
from printed import canonical, printed_rows
from servers.rest_catalog import RestServer, RestServers


@pytest.fixture
def server(rest_servers: RestServers, tmp_path: Path) -> Iterator[RestServer]:
    started = rest_servers.open(str(tmp_path / "warehouse"), "lake")
    yield started
    started.stop()


@pytest.fixture
def lake(server: RestServer, tmp_path: Path) -> Lake:
    return connect(warehouse=str(tmp_path / "warehouse"), catalog_options=server.options)


def write(lake: Lake, rows: dict[int, str]) -> None:
    lake.table("db.t").write(pa.table({"id": pa.array(rows, pa.int32()), "c": list(rows.values())}))


def ours(lake: Lake) -> dict[int, str]:
    rows = lake.table("db.t").scan().to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["c"].to_pylist(), strict=True))


def test_all_go_on_after_each_other_and_read_the_same(lake: Lake, server: RestServer, java: Any, pypaimon_rows) -> None:
    lake.sql("create table db.t (id int, c string, primary key (id)) using lakelog tblproperties ('bucket' = '2')")
    theirs = server.paimon_options
    want: dict[int, str] = {}
    for turn in range(6):
        rows = {number: f"{turn}-{number}" for number in range(turn * 3, turn * 3 + 10)}
        want |= rows
        if turn % 2:
            java.write(theirs, "db", "t", list(rows.items()))
        else:
            write(lake, rows)
        assert ours(lake) == want
        assert dict(java.rows(theirs, "db", "t")) == want
    printed = printed_rows(lake.table("db.t").scan().to_arrow())
    assert sorted(map(canonical, pypaimon_rows(theirs, "db.t"))) == sorted(map(canonical, printed))
    newest = lake.table("db.t").latest_snapshot()
    told = java.catalog(theirs).loadSnapshot(java.identifier("db", "t")).get()
    assert newest is not None and told.snapshot().id() == newest.id


def test_tables_that_paimon_creates_and_alters_are_readable_and_writable(
    lake: Lake, server: RestServer, java: Any
) -> None:
    theirs = server.paimon_options
    java.create(theirs, "t", {"id": "INT NOT NULL", "c": "STRING"}, ["id"], options={"bucket": "1"}, database="db")
    java.write(theirs, "db", "t", [(1, "a")])
    java.alter(theirs, "t", java.change.renameColumn("c", "d"), database="db")
    table = lake.table("db.t")
    assert table.schema.names == ["id", "d"] and table.scan().to_arrow().to_pylist() == [{"id": 1, "d": "a"}]
    table.alter(AddColumn(("e",), STRING))
    lake.table("db.t").write(pa.table({"id": pa.array([2], pa.int32()), "d": ["b"], "e": ["x"]}))
    assert sorted(java.rows(theirs, "db", "t")) == [(1, "a", None), (2, "b", "x")]
    assert (
        list(java.catalog(theirs).listTables("db")) == lake.sql("show tables in db")["tableName"].to_pylist() == ["t"]
    )
    lake.sql("drop table db.t")
    assert list(java.catalog(theirs).listTables("db")) == []


def test_paimon_rolls_back_and_we_follow(lake: Lake, server: RestServer, java: Any) -> None:
    lake.sql("create table db.t (id int, c string, primary key (id)) using lakelog tblproperties ('bucket' = '1')")
    for number in range(1, 4):
        write(lake, {number: "a"})
    instant = java.paimon.table.Instant.snapshot(2)
    java.catalog(server.paimon_options).rollbackTo(java.identifier("db", "t"), instant)
    assert ours(lake) == {1: "a", 2: "a"}
    write(lake, {9: "b"})
    assert dict(java.rows(server.paimon_options, "db", "t")) == {1: "a", 2: "a", 9: "b"}
