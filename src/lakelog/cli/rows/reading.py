"""The options of commands that read rows: columns, filter, and point in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from lakelog.lake import Table
from lakelog.options.log import READ_MODE
from lakelog.table.read.base import TableScan


@dataclass(frozen=True)
class Reading:
    """The read options of a command."""

    columns: tuple[str, ...] | None = None
    where: str | None = None
    snapshot: int | None = None
    tag: str | None = None
    timestamp: str | None = None
    fresh: bool = False

    def scan(self, table: Table) -> TableScan:
        """The read of a table. Raises InvalidRequest, NotFound."""
        return table.scan(
            self.columns,
            self.where,
            self.snapshot,
            self.tag,
            self.timestamp,
            options={READ_MODE.key: "union"} if self.fresh else None,
        )


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the read options to a command, which gets them as the argument ``reading``."""

    @click.option("--columns", metavar="A,B,…", help="Columns to print, in this order.")
    @click.option("--where", metavar="CONDITION", help="Condition on the rows, as in a WHERE clause.")
    @click.option("--snapshot", type=int, metavar="ID", help="Snapshot to read.")
    @click.option("--tag", help="Tag to read.")
    @click.option("--timestamp", metavar="TIME", help="Time of the snapshot to read, such as '2024-01-31 12:00:00'.")
    @click.option("--fresh", is_flag=True, help="Include rows not yet in a snapshot.")
    @wraps(command)
    def with_reading(
        *arguments: Any,
        columns: str | None,
        where: str | None,
        snapshot: int | None,
        tag: str | None,
        timestamp: str | None,
        fresh: bool,
        **more: Any,
    ) -> Any:
        names = None if columns is None else tuple(name.strip() for name in columns.split(","))
        return command(*arguments, reading=Reading(names, where, snapshot, tag, timestamp, fresh), **more)

    return with_reading
