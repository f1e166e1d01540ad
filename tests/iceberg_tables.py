"""Tables with Iceberg metadata, each with a history of its own, and what Iceberg's readers must see of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import all_types
from lakelog import connect
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table

Rows = list[dict[str, Any]]
ON = "'metadata.iceberg.storage' = 'table-location'"


def open_lake(place: Path) -> Lake:
    return connect(warehouse=str(place / "warehouse"))


def make(lake: Lake, columns: str, more: str = "", options: str = "") -> Table:
    """A table ``db.t`` with Iceberg metadata, and compactions only when they are asked for."""
    lake.sql(
        f"create table db.t ({columns}) using lakelog {more} "
        f"tblproperties ({ON}, 'write-only' = 'true'{', ' if options else ''}{options})"
    )
    return lake.table("db.t")


def write(table: Table, *rows: dict[str, Any], overwrite: Any = False) -> None:
    table.write(pa.Table.from_pylist(list(rows), schema=table.schema), overwrite=overwrite, missing="null")


def numbers(first: int, count: int, **more: Any) -> Rows:
    return [{"id": n, "name": f"name {n}", **more} for n in range(first, first + count)]


def every_type(lake: Lake) -> Table:
    columns = [c for c in all_types.COLUMNS if c.name not in ("daytime", "deep")]
    table = make(lake, "id bigint, " + ", ".join(f"{c.name} {c.ddl}" for c in columns))
    rows = [{k: v for k, v in row.items() if k not in ("daytime", "deep")} for row in all_types.rows(0, 30)]
    write(table, *rows[:10])
    write(table, *rows[10:])
    return table


def partitions(lake: Lake) -> Table:
    table = make(
        lake,
        "id int, name string, day date, kind string, cost decimal(7, 2), small tinyint, yes boolean, n bigint",
        "partitioned by (day, kind, cost, small, yes, n)",
    )
    part: dict[str, Any] = {"day": dt.date(2024, 2, 29), "kind": "a/b c:d", "cost": Decimal("-1.50"), "small": -3}
    write(table, *numbers(0, 5, **part, yes=True, n=1 << 40))
    write(table, *numbers(5, 5, **{**part, "day": dt.date(1969, 12, 31), "kind": None, "cost": None}, yes=False, n=0))
    return table


def timestamp_partitions(lake: Lake) -> Table:
    table = make(lake, "id int, name string, at timestamp_ntz, z timestamp", "partitioned by (at, z)")
    for micros in (0, 123456):
        at = dt.datetime(2024, 2, 29, 12, 0, 0, micros)
        write(table, *numbers(micros, 3, at=at, z=at.replace(tzinfo=dt.UTC)))
    return table


def keyed(lake: Lake) -> Table:
    table = make(lake, "id int, name string, primary key (id)", options="'bucket' = '3'")
    write(table, *numbers(0, 50))
    write(table, *[{**row, "name": "new"} for row in numbers(10, 10)])
    table.compact()
    write(table, *[{**row, "name": "newer"} for row in numbers(40, 20)])
    table.compact()
    return table


def keyed_partitions(lake: Lake) -> Table:
    table = make(lake, "id int, name string, day date, primary key (day, id)", "partitioned by (day)", "'bucket' = '2'")
    for day in (1, 2, 3):
        write(table, *numbers(0, 20, day=dt.date(2024, 1, day)))
    table.compact()
    table.drop_partitions([{"day": dt.date(2024, 1, 2)}])
    table.compact()
    return table


def deleted_rows(lake: Lake) -> Table:
    table = make(lake, "id int, name string, primary key (id)", options="'bucket' = '2'")
    write(table, *numbers(0, 30))
    table.compact()
    table.delete("id < 15")
    table.compact()
    return table


def aggregation(lake: Lake) -> Table:
    table = make(
        lake,
        "id int, total bigint, primary key (id)",
        options="'merge-engine' = 'aggregation', 'fields.total.aggregate-function' = 'sum'",
    )
    for _ in range(3):
        write(table, *[{"id": n, "total": n} for n in range(10)])
    table.compact()
    return table


def evolution(lake: Lake) -> Table:
    table = make(lake, "id int, name string, gone int, real float, cost decimal(5, 2)")
    write(table, *[{**row, "gone": 1, "real": 1.5, "cost": Decimal("1.25")} for row in numbers(0, 5)])
    for change in (
        "alter column id type bigint",
        "alter column real type double",
        "drop column gone",
        "rename column name to title",
        "add column gone string",
        "add column at timestamp_ntz after id",
    ):
        lake.sql(f"alter table db.t {change}")
    table = lake.table("db.t")
    write(
        table, {"id": 1 << 40, "title": "x", "real": 0.1, "cost": None, "gone": "text", "at": dt.datetime(2024, 1, 1)}
    )
    return table


def not_a_number(lake: Lake) -> Table:
    table = make(lake, "id int, name string, real float, wide double")
    nan = float("nan")
    write(table, *numbers(0, 2, real=nan, wide=nan))
    write(table, *numbers(2, 2, real=1.0, wide=-0.0), *numbers(4, 1, real=nan, wide=None))
    write(table, *numbers(5, 2, real=None, wide=None))
    return table


def overwritten(lake: Lake) -> Table:
    table = make(lake, "id int, name string, day date", "partitioned by (day)")
    for day in (1, 2):
        write(table, *numbers(0, 5, day=dt.date(2024, 1, day)))
    write(table, *numbers(9, 1, day=dt.date(2024, 1, 2)), overwrite={"day": dt.date(2024, 1, 2)})
    return table


def truncated(lake: Lake) -> Table:
    table = make(lake, "id int, name string")
    write(table, *numbers(0, 5))
    table.truncate()
    write(table, *numbers(5, 2))
    table.truncate()
    return table


def compacted_appends(lake: Lake) -> Table:
    table = make(lake, "id int, name string")
    for n in range(8):
        write(table, *numbers(n, 3))
    table.compact()
    return table


def many_manifests(lake: Lake) -> Table:
    table = make(lake, "id int, name string", options="'manifest.merge-min-count' = '3'")
    for n in range(10):
        write(table, *numbers(n, 1))
    return table


def rolled_back(lake: Lake) -> Table:
    table = make(lake, "id int, name string")
    for n in range(5):
        write(table, *numbers(n, 2))
    table.rollback_to(snapshot_id=2)
    write(table, *numbers(90, 2))
    return table


def rolled_back_last(lake: Lake) -> Table:
    table = make(lake, "id int, name string")
    for n in range(4):
        write(table, *numbers(n, 2))
    table.rollback_to(snapshot_id=2)
    return table


def tagged(lake: Lake) -> Table:
    table = make(lake, "id int, name string")
    for n in range(6):
        write(table, *numbers(n, 2))
        if n in (1, 3):
            table.create_tag(f"after {n}")
    table.create_tag("gone", 3)
    table.delete_tag("gone")
    table.expire_snapshots(retain_max=1)
    return table


def expired(lake: Lake) -> Table:
    table = make(lake, "id int, name string, primary key (id)")
    for n in range(5):
        write(table, *numbers(n, 2))
        table.compact()
    table.expire_snapshots(retain_max=2)
    return table


def switched_on(lake: Lake) -> Table:
    lake.sql("create table db.t (id int, name string) using lakelog tblproperties ('write-only' = 'true')")
    for n in range(3):
        write(lake.table("db.t"), *numbers(n, 2))
    lake.sql(f"alter table db.t set tblproperties ({ON})")
    table = lake.table("db.t")
    write(table, *numbers(10, 2))
    write(table, *numbers(12, 2))
    return table


def odd_names(lake: Lake) -> Table:
    table = make(lake, "id int, `naïve name` string, `1st part` string", "partitioned by (`1st part`)")
    write(table, {"id": 1, "naïve name": "ž", "1st part": "100% #1?"})
    return table


def partial_update(lake: Lake) -> Table:
    columns = "id int, name string, n bigint, day date, primary key (id)"
    table = make(lake, columns, options="'merge-engine' = 'partial-update'")
    write(table, *numbers(0, 8, n=None, day=None))
    write(table, *[{"id": n, "name": None, "n": n, "day": dt.date(2024, 1, 1)} for n in range(4, 12)])
    table.compact()
    return table


def first_rows(lake: Lake) -> Table:
    table = make(lake, "id int, name string, primary key (id)", options="'merge-engine' = 'first-row'")
    write(table, *numbers(0, 5))
    write(table, *[{"id": n, "name": "late"} for n in range(3, 8)])
    table.compact()
    return table


def sequenced(lake: Lake) -> Table:
    table = make(lake, "id int, name string, n bigint, primary key (id)", options="'sequence.field' = 'n'")
    write(table, *numbers(0, 5, n=10))
    write(table, *[{"id": n, "name": "old", "n": 5} for n in range(5)], *numbers(5, 2, n=1))
    table.compact()
    return table


def keyed_evolution(lake: Lake) -> Table:
    table = make(lake, "id int, name string, n int, primary key (id)", options="'bucket' = '2'")
    write(table, *numbers(0, 10, n=1))
    table.compact()
    for change in ("rename column name to title", "alter column n type bigint", "add column more double first"):
        lake.sql(f"alter table db.t {change}")
    table = lake.table("db.t")
    write(table, *[{"more": 0.5, "id": n, "title": "x", "n": 1 << 40} for n in range(8, 14)])
    table.compact()
    return table


def logged(lake: Lake) -> Table:
    table = make(lake, "id int, name string, primary key (id)", options="'log-store.enabled' = 'true', 'bucket' = '2'")
    for first in (0, 5, 3):
        write(table, *numbers(first, 10))
    table.delete("id = 4")
    table.compact()
    return table


def dynamic_buckets(lake: Lake) -> Table:
    options = "'bucket' = '-1', 'dynamic-bucket.target-row-num' = '5'"
    table = make(lake, "id int, name string, primary key (id)", options=options)
    for first in (0, 12, 6):
        write(table, *numbers(first, 12))
    table.compact()
    return table


def rescaled(lake: Lake) -> Table:
    table = make(lake, "id int, name string, primary key (id)", options="'bucket' = '1'")
    write(table, *numbers(0, 20))
    lake.sql("alter table db.t set tblproperties ('bucket' = '4')")
    table = lake.table("db.t")
    table.rescale()
    write(table, *[{"id": n, "name": "new"} for n in range(15, 25)])
    table.compact()
    return table


def forwarded(lake: Lake) -> Table:
    table = make(lake, "id int, name string")
    write(table, *numbers(0, 3))
    table.create_tag("base")
    table.create_branch("b", tag="base")
    write(lake.table("db.t$branch_b"), *numbers(10, 3))
    write(table, *numbers(20, 3))
    table.fast_forward("b")
    write(lake.table("db.t"), *numbers(30, 1))
    return lake.table("db.t")


def rolled_back_to_a_tag(lake: Lake) -> Table:
    table = make(lake, "id int, name string, primary key (id)")
    for n in range(4):
        write(table, *numbers(n, 2))
        table.compact()
        if n == 1:
            table.create_tag("good")
    table.expire_snapshots(retain_max=1)
    table.rollback_to(tag="good")
    return table


def nested_evolution(lake: Lake) -> Table:
    table = make(lake, "id int, s struct<a: int, b: string>, l array<struct<x: int>>, m map<string, int>")
    write(table, {"id": 1, "s": {"a": 1, "b": "x"}, "l": [{"x": 1}, None], "m": [("k", 1)]})
    for change in ("add column s.c double", "rename column s.b to z", "alter column s.a type bigint"):
        lake.sql(f"alter table db.t {change}")
    table = lake.table("db.t")
    write(table, {"id": 2, "s": {"a": 1 << 40, "z": "y", "c": 0.5}, "l": [], "m": None})
    return table


def null_partitions(lake: Lake) -> Table:
    options = "'partition.default-name' = 'nothing', 'file.compression' = 'snappy'"
    table = make(lake, "id int, name string, a int, b string", "partitioned by (a, b)", options)
    write(table, *numbers(0, 2, a=None, b="x"), *numbers(2, 2, a=1, b=None), *numbers(4, 2, a=None, b=None))
    table.drop_partitions([{"a": 1, "b": None}])
    return table


def tagged_deletes(lake: Lake) -> Table:
    table = make(lake, "id int, name string, primary key (id)", options="'bucket' = '2'")
    write(table, *numbers(0, 20))
    table.compact()
    table.create_tag("before")
    table.delete("id >= 5")
    write(table, *numbers(7, 1))
    table.compact()
    table.create_tag("after")
    return table


TABLES: tuple[Callable[[Lake], Table], ...] = (
    every_type,
    partitions,
    timestamp_partitions,
    keyed,
    keyed_partitions,
    deleted_rows,
    aggregation,
    evolution,
    not_a_number,
    overwritten,
    truncated,
    compacted_appends,
    many_manifests,
    rolled_back,
    rolled_back_last,
    tagged,
    expired,
    switched_on,
    odd_names,
    partial_update,
    first_rows,
    sequenced,
    keyed_evolution,
    logged,
    dynamic_buckets,
    rescaled,
    forwarded,
    rolled_back_to_a_tag,
    nested_evolution,
    null_partitions,
    tagged_deletes,
)


def plain(rows: Rows) -> list[str]:
    """Rows in an order and a form that compare: NaN equals itself, maps are lists of pairs."""
    return sorted(repr(row) for row in rows)
