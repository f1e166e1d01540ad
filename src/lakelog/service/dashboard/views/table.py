"""One table: what it is, and pages of what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from lakelog.lake import Lake, Table
from lakelog.lake.plain_rows import plain_rows
from lakelog.options.log import shown_value
from lakelog.sql.types import type_text
from lakelog.table.health import TableHealth

LISTS: Final = {
    "files": (
        "partition",
        "bucket",
        "level",
        "record_count",
        "file_size_in_bytes",
        "creation_time",
        "file_source",
        "file_path",
    ),
    "partitions": None,
    "buckets": None,
    "schemas": None,
    "tags": None,
    "branches": None,
    "consumers": None,
    "options": None,
}
"""System tables that a page lists, with the columns that it shows (None: all)."""
_SHOWN_VALUE: Final = 500


@dataclass(frozen=True)
class Column:
    """A column as SQL writes its type."""

    name: str
    type: str
    is_nullable: bool
    is_key: bool
    is_partition: bool
    comment: str


@dataclass(frozen=True)
class TablePage:
    """What a table is and how it is; option values that may be secret are masked."""

    name: str
    path: str
    is_keyed: bool
    buckets: int
    columns: Sequence[Column]
    options: dict[str, str]
    log_system: str | None
    topic: str | None
    health: TableHealth


@dataclass(frozen=True)
class Grid:
    """Rows of anything, with the names of their columns; ``more`` says that there are others behind them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    more: bool


def table_page(table: Table, health: TableHealth) -> TablePage:
    """The facts of a table; its schema is read anew."""
    schema, log = table.definition, table.log
    columns = [
        Column(
            field.name,
            type_text(field.type),
            field.type.nullable,
            field.name in schema.primary_keys,
            field.name in schema.partition_keys,
            field.description or "",
        )
        for field in schema.fields
    ]
    options = {key: shown_value(key, value) for key, value in sorted(schema.options.items())}
    return TablePage(
        table.name,
        table.path,
        schema.is_keyed,
        schema.num_buckets,
        columns,
        options,
        None if log is None else log.system,
        None if log is None else log.topic,
        health,
    )


def history_grid(table: Table, before: int | None, limit: int) -> Grid:
    """The newest snapshots, or those before one."""
    return grid_of(iter([table.history(limit + 1, before)]), limit)


def system_grid(lake: Lake, name: str, kind: str, limit: int) -> Grid:
    """The first rows of a system table."""
    scan = lake.table(f"{name}${kind}").scan(columns=LISTS[kind])
    return grid_of(map(_table_of, scan.to_batches()), limit)


def preview(table: Table, limit: int) -> Grid:
    """Some rows of the newest snapshot, as a batch read finds them first."""
    return grid_of(map(_table_of, table.scan().to_batches()), limit)


def grid_of(chunks: Iterator[pa.Table], limit: int) -> Grid:
    """At most ``limit`` rows as plain values; reads no chunk more than it needs."""
    columns: Sequence[str] = ()
    rows: list[Sequence[Any]] = []
    for chunk in chunks:
        columns = chunk.column_names
        rows += [[_shown(value) for value in row] for row in islice(plain_rows(chunk), limit + 1 - len(rows))]
        if len(rows) > limit:
            break
    return Grid(columns, rows[:limit], len(rows) > limit)


def _table_of(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _shown(value: Any) -> Any:
    """A value that fits a page: long texts are cut."""
    if isinstance(value, str) and len(value) > _SHOWN_VALUE:
        return f"{value[:_SHOWN_VALUE]}…"
    return value
