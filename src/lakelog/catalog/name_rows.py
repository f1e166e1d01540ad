"""The names of databases and tables as rows of a database, in the tables of Paimon's JDBC catalog."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from lakelog.catalog.base import Identifier
from lakelog.errors import AlreadyExists, NotFound
from lakelog.io.database import database_errors, engine_of
from lakelog.options.catalog import CATALOG_URI

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
        """All names, sorted: those that were created, and those that only have tables."""
        with self._connection() as connection:
            found: set[str] = set()
            for table in (_NAMES, _PROPERTIES):
                query = sa.select(table.c.database_name).where(table.c.catalog_key == self.key).distinct()
                found |= set(connection.execute(query).scalars())
            return sorted(found)

    def add_database(self, name: str, location: str) -> bool:
        """Adds a database; False when it is there."""
        values = [{"property_key": _EXISTS, "property_value": "true"}]
        values += [{"property_key": LOCATION, "property_value": location}]
        return self._added(_PROPERTIES, [{"catalog_key": self.key, "database_name": name, **v} for v in values])

    def location(self, database: str) -> str | None:
        """The directory that a database was given, if any."""
        query = self._of(_PROPERTIES, sa.select(_PROPERTIES.c.property_value), database)
        with self._connection() as connection:
            found: str | None = connection.execute(query.where(_PROPERTIES.c.property_key == LOCATION)).scalar()
            return found

    def remove_database(self, name: str) -> None:
        """Removes a database with its tables."""
        with self._connection() as connection:
            for table in (_NAMES, _PROPERTIES):
                connection.execute(self._of(table, sa.delete(table), name))

    def tables(self, database: str) -> list[str]:
        """The names of a database's tables, sorted."""
        with self._connection() as connection:
            found = connection.execute(self._of(_NAMES, sa.select(_NAMES.c.table_name), database)).scalars()
            return sorted(found)

    def has(self, table: Identifier) -> bool:
        """Whether a table is there."""
        with self._connection() as connection:
            return connection.execute(self._at(sa.select(_NAMES.c.table_name), table)).first() is not None

    def add(self, table: Identifier) -> bool:
        """Adds a table; False when it is there."""
        return self._added(_NAMES, [self._row(table)])

    def remove(self, table: Identifier) -> None:
        """Removes a table; nothing happens when it is not there."""
        with self._connection() as connection:
            connection.execute(self._at(sa.delete(_NAMES), table))

    @contextlib.contextmanager
    def renamed(self, table: Identifier, new: Identifier) -> Iterator[None]:
        """Gives a table another name, when what is done meanwhile has not failed. Raises AlreadyExists, NotFound."""
        with self._connection() as connection:
            try:
                changed = connection.execute(self._at(sa.update(_NAMES), table).values(**self._row(new))).rowcount
            except IntegrityError:
                raise AlreadyExists(f"table {new} exists: choose another name, or drop it first") from None
            if not changed:
                raise NotFound(f"table {table} does not exist (any more)")
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
