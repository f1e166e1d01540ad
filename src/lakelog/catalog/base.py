"""Interface of all catalogs: databases, tables and their directories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound, closest_name, did_you_mean
from lakelog.io.storage.confined import confined
from lakelog.io.storage.file_io import FileIO
from lakelog.options.names import sql_name_fault, stored_name_fault, visible
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

    def check_names(self) -> None:
        """Raises InvalidRequest for a name that is invalid for a database or a table."""
        check_name("database", self.database)
        check_name("table", self.table)


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

    warehouse: str
    commits_by_server: ClassVar[bool] = False
    """Whether a server commits to the tables, so that they must be opened through the catalog."""

    @abstractmethod
    def list_databases(self) -> list[str]:
        """Names of the databases, sorted."""

    def create_database(self, name: str, if_not_exists: bool = False) -> None:
        """Creates a database. Raises AlreadyExists, InvalidRequest for an invalid name."""
        check_new_name("database", name)
        if not self.add_database(name) and not if_not_exists:
            raise AlreadyExists(f"database '{name}' exists: choose another name, or write IF NOT EXISTS")

    def ensure_database(self, name: str) -> None:
        """Creates a database unless it exists, whatever its name. Raises InvalidRequest for an invalid new name."""
        if name not in self.list_databases():
            self.create_database(name, if_not_exists=True)

    def drop_database(self, name: str, if_exists: bool = False, cascade: bool = False) -> None:
        """Drops a database, including its tables if ``cascade``. Raises NotFound, InvalidRequest (not empty)."""
        check_name("database", name)
        tables = self.find_tables(name)
        if tables and not cascade:
            raise InvalidRequest(
                f"database '{name}' has {len(tables)} tables ({tables[0]} …): drop them, or use CASCADE"
            )
        if (tables is None or not self.remove_database(name, cascade)) and not if_exists:
            raise self._no_database(name)

    def list_tables(self, database: str) -> list[str]:
        """Names of the tables of a database, sorted. Raises NotFound."""
        check_name("database", database)
        tables = self.find_tables(database)
        if tables is None and database != DEFAULT_DATABASE:
            raise self._no_database(database)
        return tables or []

    @abstractmethod
    def find_tables(self, database: str) -> list[str] | None:
        """Names of the tables of a database, sorted; None if there is no such database."""

    @abstractmethod
    def add_database(self, name: str) -> bool:
        """Stores a new database with a valid name. Returns False if it exists."""

    @abstractmethod
    def remove_database(self, name: str, cascade: bool) -> bool:
        """Removes a database, with tables only if ``cascade``. Returns False if there is none."""

    @abstractmethod
    def has_table(self, identifier: Identifier) -> bool:
        """Returns whether the table exists."""

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

    def drop_table(self, identifier: Identifier, if_exists: bool = False) -> None:
        """Drops a table and deletes all its files. Raises NotFound."""
        identifier.check_names()
        try:
            self.remove_table(identifier)
        except NotFound:
            if not if_exists:
                raise

    @abstractmethod
    def remove_table(self, identifier: Identifier) -> None:
        """Removes a table and all its files. Raises NotFound."""

    @abstractmethod
    def alter_table(
        self, identifier: Identifier, changes: Sequence[SchemaChange], check: CheckChange | None = None
    ) -> TableLocation:
        """Writes one new schema with all these changes and returns the altered table.

        The changes apply to the newest schema. If a concurrent ALTER wins, they are validated again on its schema.
        ``check`` may reject them, too. Changes without effect write no schema. Raises NotFound, InvalidSchema,
        InvalidOption, UnsupportedFeature, CommitConflict (too many lost races), CommitUnknown.
        """

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Renames a table, possibly into another database. If several clients rename it at the same time, one wins.

        Raises NotFound (the table, or the database of the new name), AlreadyExists, InvalidRequest for an invalid
        name, UnsupportedFeature if the storage has no atomic rename.
        """
        identifier.check_names()
        new.check_names()
        check_new_name("table", new.table)
        if not self.has_table(identifier):
            raise self._no_table(identifier)
        if new.database != identifier.database and new.database not in self.list_databases():
            raise self._no_database(new.database)
        if not self.move_table(identifier, new):
            raise AlreadyExists(f"table {new} exists: choose another name, or drop it first")

    @abstractmethod
    def move_table(self, identifier: Identifier, new: Identifier) -> bool:
        """Gives an existing table a name in an existing database. Returns False if another table has it."""

    def _no_table(self, identifier: Identifier) -> NotFound:
        tables = self.find_tables(identifier.database)
        if tables is None and identifier.database != DEFAULT_DATABASE:
            return self._no_database(identifier.database)
        near = near_or_all(identifier.table, tables or [])
        if identifier.database == DEFAULT_DATABASE and closest_name(identifier.table, tables or []) is None:
            # a name without its database; CREATE TABLE asks for other names too often for a search of all databases
            homes = (d for d in self.list_databases() if identifier.table in (self.find_tables(d) or ()))
            near = next((f", did you mean '{home}.{identifier.table}'?" for home in homes), near)
        return NotFound(f"table {identifier} does not exist in '{self.warehouse}'{near}")

    def _no_database(self, name: str) -> NotFound:
        near = near_or_all(name, self.list_databases())
        return NotFound(f"database '{name}' does not exist in '{self.warehouse}'{near}")


def near_or_all(name: str, known: Sequence[str]) -> str:
    """The suffix of an error about an unknown name: the closest known name, or all known names."""
    return did_you_mean(name, known, f"; there are: {', '.join(known)}" if known else "; none exists yet")


def check_name(what: str, name: str) -> None:
    """Raises InvalidRequest for a name that is invalid for a database or a table."""
    if fault := stored_name_fault(name):
        raise InvalidRequest(f"'{visible(name)}' cannot be the name of a {what}: {fault}")


def check_new_name(what: str, name: str) -> None:
    """Raises InvalidRequest for an invalid name of a new database or table; existing names stay valid."""
    if fault := sql_name_fault(name):
        raise InvalidRequest(f"'{visible(name)}' cannot be the name of a {what}: {fault}")
