"""Two lakes on one warehouse that know nothing of each other, and the rows that both stores of a table have."""

from __future__ import annotations

import pyarrow as pa

from debezium_consumer import folded
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table


def rows(id_: int | str, value: str) -> pa.Table:
    return pa.table({"id": pa.array([id_], pa.string() if isinstance(id_, str) else pa.int32()), "v": [value]})


def write(table: Table, id_: int | str, value: str) -> None:
    table.write(rows(id_, value), missing="null")


def opened(lakes: tuple[Lake, Lake], log: str) -> Table:
    """A handle whose clients are open: it has written and read."""
    service, _ = lakes
    service.sql(f"create table db.x (id int, v string, primary key (id)) {log}")
    table = service.table("db.x")
    write(table, 1, "before")
    assert files(table) == [(1, "before")]
    return table


def files(table: Table) -> list[tuple[object, str]]:
    return sorted((r["id"], r["v"]) for r in table.scan().to_arrow().to_pylist())


def plain(table: Table) -> list[tuple[object, str]]:
    """What a plain consumer of the log ends with."""
    values = [value for part in table.log_records() for value in part.column("value").to_pylist()]
    return sorted((r["id"], r["v"]) for r in folded(values, list(table.primary_keys)).values())


def stores(table: Table) -> list[tuple[object, str]]:
    """The rows, which both stores have."""
    found = files(table)
    assert table.log is None or plain(table) == found
    return found
