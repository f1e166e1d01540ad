"""A catalog whose names are rows of a database, compatible with Paimon's JDBC catalog in both directions.

The tables are stored in the same directories as in the filesystem catalog. A row makes a name valid. The first schema
file decides which client created the table. So each step can be repeated. A crash between two steps leaves a name
without a table, or a table without a name, which the next CREATE or DROP repairs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from lakelog.catalog.base import DEFAULT_DATABASE, Catalog, CheckChange, Identifier, TableLocation, check_new_name
from lakelog.catalog.directories import Directories, bare_path
from lakelog.errors import AlreadyExists, InvalidOption, NotFound, UnsupportedFeature
from lakelog.io.remote.database import database_errors, engine_of
from lakelog.io.storage.file_io import FileIO
from lakelog.options.catalog import CATALOG_KEY, CATALOG_URI
from lakelog.options.option import Options
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema


class SqlCatalog(Catalog):
    """Names in a database, tables in directories ``<warehouse>/<database>.db/<table>``."""

    def __init__(self, warehouse: str, io: FileIO, options: Options) -> None:
        if CATALOG_URI.key not in options:
            raise InvalidOption(
                f"a sql catalog needs the option '{CATALOG_URI.key}', such as 'sqlite:////data/catalog.db' or "
                f"'postgresql+psycopg://user:password@host/database'"
            )
        self._rows = NameRows(options.need(CATALOG_URI), options.need(CATALOG_KEY))
        self._files = Directories(warehouse, io)
        self.warehouse = self._files.warehouse

    def list_databases(self) -> list[str]:
        return self._rows.databases()

    def add_database(self, name: str) -> bool:
        if name in self._rows.databases():
            return False
        self._files.add_database(name)
        return self._rows.add_database(name, self._files.database_path(name))

    def remove_database(self, name: str, cascade: bool) -> bool:
        self._files.drop_database(name, if_exists=True, cascade=cascade)
        self._rows.remove_database(name)
        return True

    def find_tables(self, database: str) -> list[str] | None:
        tables = self._rows.tables(database)
        return tables if tables or database in self._rows.databases() else None

    def has_table(self, identifier: Identifier) -> bool:
        return self._rows.has(identifier)

    def table_path(self, identifier: Identifier) -> str:
        path, location = self._files.table_path(identifier), self._rows.location(identifier.database)
        if location is not None and bare_path(f"{location.rstrip('/')}/{identifier.table}") != bare_path(path):
            raise UnsupportedFeature(
                f"database '{identifier.database}' is at '{location}', not in the warehouse '{self.warehouse}': open "
                "the warehouse in which it was created"
            )
        return path

    def table_io(self, identifier: Identifier) -> FileIO:
        return self._files.table_io(identifier)

    def load_table(self, identifier: Identifier) -> TableLocation:
        self.table_path(identifier)
        if not self._rows.has(identifier):
            raise self._no_table(identifier)
        return self._files.load_table(identifier)

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool = False) -> TableLocation:
        check_new_name("table", identifier.table)
        path = self.table_path(identifier)
        if identifier.database not in self._rows.databases():
            if identifier.database != DEFAULT_DATABASE:
                raise self._no_database(identifier.database)
            self.create_database(DEFAULT_DATABASE, if_not_exists=True)
        is_named = self._rows.has(identifier)
        if not is_named and self._files.has_table(identifier) and not if_not_exists:
            raise AlreadyExists(
                f"'{path}' holds a table that is not in this catalog: run CREATE TABLE IF NOT EXISTS to register it "
                "unchanged"
            )
        if not is_named:
            self._rows.add(identifier)
        self._files.add_database(identifier.database)  # Paimon's catalog makes no directory
        location = self._files.create_table(identifier, schema, if_not_exists)
        self._rows.add(identifier)  # a concurrent DROP may have removed the name
        return location

    def remove_table(self, identifier: Identifier) -> None:
        self.table_path(identifier)
        if not self._rows.has(identifier):
            raise self._no_table(identifier)
        self._files.drop_table(identifier, if_exists=True)
        self._rows.remove(identifier)
        if self._files.has_table(identifier):  # created while the name still existed
            self._rows.add(identifier)

    def alter_table(
        self, identifier: Identifier, changes: Sequence[SchemaChange], check: CheckChange | None = None
    ) -> TableLocation:
        self.load_table(identifier)
        return self._files.alter_table(identifier, changes, check)

    def move_table(self, identifier: Identifier, new: Identifier) -> bool:
        self.table_path(identifier)
        self.table_path(new)
        with self._rows.renamed(identifier, new):
            # completes a rename that failed between the directory and the row
            if self._files.has_table(identifier) or not self._files.has_table(new):
                self._files.rename_table(identifier, new)
        return True


_WAIT_S = 30.0
_NAME = sa.String(255)
_TABLES = sa.MetaData()
_NAMES = sa.Table(
    "paimon_tables",
    _TABLES,
    sa.Column("catalog_key", _NAME, primary_key=True),
    sa.Column("database_name", _NAME, primary_key=True),
    sa.Column("table_name", _NAME, primary_key=True),
)
_PROPERTIES = sa.Table(
    "paimon_database_properties",
    _TABLES,
    sa.Column("catalog_key", _NAME, primary_key=True),
    sa.Column("database_name", _NAME, primary_key=True),
    sa.Column("property_key", _NAME, primary_key=True),
    sa.Column("property_value", sa.String(1000)),
)
_EXISTS, LOCATION = "exists", "location"


@dataclass(frozen=True)
class NameRows:
    """The rows of one catalog (``key``) in a database. Each call is a transaction. Raises Unavailable.

    ``url`` is SQLAlchemy's and may hold a password.
    """

    url: str = field(repr=False)
    key: str

    def databases(self) -> list[str]:
        """All names, sorted: created databases, and names that only have tables."""
        with self._connection() as connection:
            names: set[str] = set()
            for table in (_NAMES, _PROPERTIES):
                query = sa.select(table.c.database_name).where(table.c.catalog_key == self.key).distinct()
                names |= set(connection.execute(query).scalars())
            return sorted(names)

    def add_database(self, name: str, location: str) -> bool:
        """Adds a database. Returns False if it exists."""
        values = [{"property_key": _EXISTS, "property_value": "true"}]
        values += [{"property_key": LOCATION, "property_value": location}]
        return self._added(_PROPERTIES, [{"catalog_key": self.key, "database_name": name, **v} for v in values])

    def location(self, database: str) -> str | None:
        """The configured directory of a database, if any."""
        query = self._of(_PROPERTIES, sa.select(_PROPERTIES.c.property_value), database)
        with self._connection() as connection:
            location: str | None = connection.execute(query.where(_PROPERTIES.c.property_key == LOCATION)).scalar()
            return location

    def remove_database(self, name: str) -> None:
        """Removes a database with its tables."""
        with self._connection() as connection:
            for table in (_NAMES, _PROPERTIES):
                connection.execute(self._of(table, sa.delete(table), name))

    def tables(self, database: str) -> list[str]:
        """The names of a database's tables, sorted."""
        with self._connection() as connection:
            names = connection.execute(self._of(_NAMES, sa.select(_NAMES.c.table_name), database)).scalars()
            return sorted(names)

    def has(self, table: Identifier) -> bool:
        with self._connection() as connection:
            return connection.execute(self._at(sa.select(_NAMES.c.table_name), table)).first() is not None

    def add(self, table: Identifier) -> bool:
        """Adds a table. Returns False if it exists."""
        return self._added(_NAMES, [self._row(table)])

    def remove(self, table: Identifier) -> None:
        """Removes a table; does nothing if it does not exist."""
        with self._connection() as connection:
            connection.execute(self._at(sa.delete(_NAMES), table))

    @contextlib.contextmanager
    def renamed(self, table: Identifier, new: Identifier) -> Iterator[None]:
        """Renames a table if the body of the context succeeds. Raises AlreadyExists, NotFound."""
        with self._connection() as connection:
            try:
                changed = connection.execute(self._at(sa.update(_NAMES), table).values(**self._row(new))).rowcount
            except IntegrityError:
                raise AlreadyExists(f"table {new} exists: choose another name, or drop it first") from None
            if not changed:
                raise NotFound(f"table {table} does not exist or was dropped")
            yield

    def _row(self, table: Identifier) -> dict[str, str]:
        return {"catalog_key": self.key, "database_name": table.database, "table_name": table.table}

    def _added(self, table: sa.Table, rows: list[dict[str, str]]) -> bool:
        with self._connection() as connection:
            try:
                connection.execute(sa.insert(table), rows)
            except IntegrityError:
                connection.rollback()
                return False
            return True

    def _of(self, table: sa.Table, statement: Any, database: str) -> Any:
        return statement.where(table.c.catalog_key == self.key, table.c.database_name == database)

    def _at(self, statement: Any, table: Identifier) -> Any:
        return self._of(_NAMES, statement, table.database).where(_NAMES.c.table_name == table.table)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        with database_errors("the database of the catalog cannot be used"):
            engine = engine_of(self.url, _TABLES, CATALOG_URI.key, _WAIT_S)
            with engine.connect() as connection:
                yield connection
                connection.commit()
