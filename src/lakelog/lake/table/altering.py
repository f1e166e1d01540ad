"""The methods of ``Table`` that change its columns, its options and its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from lakelog.catalog.base import Identifier, TableLocation
from lakelog.errors import UnsupportedFeature
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.lake.column_types import column_type
from lakelog.options.boundary import Public
from lakelog.options.log import LOG_ENABLED
from lakelog.paimon.schema.changes import (
    AddColumn,
    ChangeComment,
    ChangeNullability,
    ChangeType,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
)
from lakelog.table.model.dynamic_table import DynamicTable


class TableAltering(Public):
    """The methods of ``Table`` that change its columns, its options and its log."""

    _table: DynamicTable
    _alter: Callable[[Identifier, Sequence[SchemaChange]], TableLocation]

    def alter(self, *changes: SchemaChange) -> None:
        """Applies all these changes (``lakelog.paimon.schema.changes``) as one new schema, or none of them.

        This object sees the new schema at once. Other objects and open writers keep their schema. Raises InvalidSchema,
        InvalidOption, UnsupportedFeature naming the refused change, CommitConflict, CommitUnknown.
        """
        self._table.check_writable()
        if self._table.branch != MAIN_BRANCH:
            refuse_alter(self._table.location.identifier, changes)
        location = self._alter(self._table.location.identifier, changes)
        self._table = DynamicTable(location, self._table.hints)

    def add_column(self, name: str, type: Any, comment: str | None = None) -> Self:
        """Adds a column, NULL in all existing rows: ``t.add_column("city", "string")``; returns this table.

        ``type`` is SQL text, an Arrow or polars type. ``name`` may be a part of a row (``"address.city"``). Raises
        InvalidSchema for a name that exists, and the errors of ``alter``.

        ```pycon
        >>> t.add_column("n", "int").schema.names
        ['id', 'name', 'n']
        ```
        """
        self.alter(AddColumn(_path(name), column_type(type, name), comment))
        return self

    def rename_column(self, name: str, new_name: str) -> Self:
        """Renames a column: ``t.rename_column("city", "town")``; returns this table. Raises the errors of ``alter``.

        ```pycon
        >>> t.rename_column("name", "item").schema.names
        ['id', 'item']
        ```
        """
        self.alter(RenameColumn(_path(name), new_name))
        return self

    def drop_column(self, name: str) -> Self:
        """Drops a column and its values: ``t.drop_column("town")``; returns this table.

        Raises InvalidSchema for a key column or a missing one.
        """
        self.alter(DropColumn(_path(name)))
        return self

    def alter_column(
        self, name: str, type: Any = None, nullable: bool | None = None, comment: str | None = None
    ) -> Self:
        """Changes a column's type, nullability or comment: ``t.alter_column("id", "bigint")``; returns this table.

        A type can become a wider one. Raises the errors of ``alter``.
        """
        changes: list[SchemaChange] = []
        if type is not None:
            changes.append(ChangeType(_path(name), column_type(type, name), keep_nullable=True))
        if nullable is not None:
            changes.append(ChangeNullability(_path(name), nullable))
        if comment is not None:
            changes.append(ChangeComment(_path(name), comment))
        self.alter(*changes)
        return self

    def add_log(self, options: Mapping[str, str] | None = None) -> Self:
        """Adds a log: ``t.add_log({"log-store.type": "files"})``; returns this table.

        The log begins at the present snapshot: readers from ``latest-full`` see the whole table, then every later
        change. Writers that had the table open before fail with ``CommitConflict``, and none of their later rows is in
        only one of the stores. With ``log.content`` = ``changes`` they go on. ``options`` are those of the log. Raises
        the errors of ``alter``.
        """
        log_options = {LOG_ENABLED.key: "true", **(options or {})}
        self.alter(*(SetOption(key, value) for key, value in log_options.items()))
        return self

    def remove_log(self) -> Self:
        """Removes the log; all rows stay in the files. Returns this table: ``t.remove_log()``.

        Local files of the log are deleted, a topic only with ``log-store.drop-with-table``. Raises InvalidRequest for a
        log with rows that no file has (``emit.mode`` = ``log``), UnsupportedFeature for a materialized view.
        """
        self.alter(SetOption(LOG_ENABLED.key, "false"))
        return self


def refuse_alter(identifier: Identifier, changes: Sequence[SchemaChange]) -> TableLocation:
    raise UnsupportedFeature(
        f"the schema of a branch of table {identifier} cannot be changed: change main and recreate the branch"
    )


def _path(name: str) -> tuple[str, ...]:
    """A column, or a part of a row, as in ``identifier_of``."""
    return tuple(name.split("."))
