"""Interface of all catalogs: databases, tables and their directories."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lakelog.errors import NotFound
from lakelog.io.storage.confined import confined
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema

DEFAULT_DATABASE: Final = "default"
"""The database that exists without CREATE DATABASE."""


@dataclass(frozen=True)
class Identifier:
    """A table's name: database, table and catalog ("": the session's first catalog)."""

    database: str
    table: str
    catalog: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """``(database, table)``, prefixed with the catalog unless it is the session's first one."""
        return (*((self.catalog,) if self.catalog else ()), self.database, self.table)

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class TableLocation:
    """A table's state at load time; frozen and picklable, so that it can be sent to Spark executors.

    Its ``io`` can access only files below ``path``.
    """

    identifier: Identifier
    path: str
    schema: TableSchema
    io: FileIO

    def __post_init__(self) -> None:
        object.__setattr__(self, "io", confined(self.io, self.path))


CheckChange = Callable[[TableSchema, TableSchema], None]
"""Checks a change by (old schema, new schema) and raises if the change is not allowed."""


class Catalog(ABC):
    """Databases and tables of one warehouse. Every change is atomic."""

    commits_by_server: ClassVar[bool] = False
    """Whether a server commits to the tables, so that they must be opened through the catalog."""

    @abstractmethod
    def list_databases(self) -> list[str]:
        """Names of the databases, sorted."""

    @abstractmethod
    def create_database(self, name: str, if_not_exists: bool = False) -> None:
        """Creates a database. Raises AlreadyExists, InvalidRequest for an invalid name."""

    @abstractmethod
    def drop_database(self, name: str, if_exists: bool = False, cascade: bool = False) -> None:
        """Drops a database, including its tables if ``cascade``. Raises NotFound, InvalidRequest (not empty)."""

    @abstractmethod
    def list_tables(self, database: str) -> list[str]:
        """Names of the tables of a database, sorted. Raises NotFound."""

    @abstractmethod
    def table_path(self, identifier: Identifier) -> str:
        """The directory of the table, whether or not it exists. Raises InvalidRequest for an invalid name."""

    @abstractmethod
    def table_io(self, identifier: Identifier) -> FileIO:
        """The storage of the table, whether or not it exists, confined to the table's directory."""

    @abstractmethod
    def load_table(self, identifier: Identifier) -> TableLocation:
        """The table with its newest schema. Raises NotFound, which suggests the closest name."""

    @abstractmethod
    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool = False) -> TableLocation:
        """Creates a table with this first schema. If several clients create it at the same time, one wins.

        Raises AlreadyExists (with ``if_not_exists`` it returns the existing table instead), NotFound if the database
        is missing (``default`` is created), InvalidRequest for an invalid name, CommitUnknown.
        """

    @abstractmethod
    def drop_table(self, identifier: Identifier, if_exists: bool = False) -> None:
        """Drops a table and deletes all its files. Raises NotFound."""

    @abstractmethod
    def alter_table(
        self, identifier: Identifier, changes: Sequence[SchemaChange], check: CheckChange | None = None
    ) -> TableLocation:
        """Writes one new schema with all these changes and returns the altered table.

        The changes apply to the newest schema. If a concurrent ALTER wins, they are validated again on its schema.
        ``check`` may reject them, too. Changes without effect write no schema. Raises NotFound, InvalidSchema,
        InvalidOption, UnsupportedFeature, CommitConflict (too many lost races), CommitUnknown.
        """

    @abstractmethod
    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Renames a table, possibly into another database. If several clients rename it at the same time, one wins.

        Raises NotFound (the table, or the database of the new name), AlreadyExists, InvalidRequest for an invalid
        name, UnsupportedFeature if the storage has no atomic rename.
        """

    def _no_database(self, name: str) -> NotFound:
        return NotFound(f"database '{name}' does not exist{near_or_all(name, self.list_databases())}")


def near_or_all(name: str, known: Sequence[str]) -> str:
    """The suffix of an error about an unknown name: the closest known name, or all known names."""
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f", did you mean '{near[0]}'?"
    return f"; there are: {', '.join(known)}" if known else "; none exists yet"
