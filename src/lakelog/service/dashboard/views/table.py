"""One table: what it is, and pages of what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.lake import Table
from lakelog.options.log import shown_value
from lakelog.service.dashboard.previews.grid import Grid, grid_of
from lakelog.sql.syntax.type_parser import type_text
from lakelog.table.health.health import TableHealth


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
    """What a table is and how it is; option values that may be secret are masked.

    ``columns`` are those from ``first_column`` on, as many as were asked for, of ``column_count``.
    """

    name: str
    path: str
    is_keyed: bool
    buckets: int
    columns: Sequence[Column]
    first_column: int
    column_count: int
    options: dict[str, str]
    log_system: str | None
    topic: str | None
    health: TableHealth


def table_page(table: Table, health: TableHealth, first_column: int = 0, limit: int = 1_000) -> TablePage:
    """The facts of a table with some of its columns; its schema is read anew."""
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
        for field in schema.fields[first_column : first_column + limit]
    ]
    options = {key: shown_value(key, value) for key, value in sorted(schema.options.items())}
    return TablePage(
        table.name,
        table.path,
        schema.is_keyed,
        schema.num_buckets,
        columns,
        first_column,
        len(schema.fields),
        options,
        None if log is None else log.system,
        None if log is None else log.topic,
        health,
    )


def history_grid(table: Table, before: int | None, limit: int) -> Grid:
    """The newest snapshots, or those before one."""
    return grid_of([table.history(limit + 1, before)], limit)
