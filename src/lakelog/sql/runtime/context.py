"""Context of statements: the current catalog and database, and name resolution."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.catalog.base import DEFAULT_DATABASE, Identifier
from lakelog.catalog.names import FIRST, CatalogNames
from lakelog.errors import InvalidRequest, NotFound, did_you_mean
from lakelog.io.names import new_attempt
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.ports import Engine
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.sql.syntax.token_stream import Name
from lakelog.table.open import identifier_of


class SessionContext:
    """The state of one SQL session.

    ``tables`` and ``engine`` do the work. ``catalog`` names the session's first catalog, which also has the names that
    older statements use. ``current_catalog`` is the current one in the form of identifiers.
    """

    def __init__(
        self, tables: CatalogTables, engine: Engine, catalog: str = "lakelog", view_prefix: str | None = None
    ) -> None:
        self.tables = tables
        self.engine = engine
        self._first = catalog
        self.current_catalog = FIRST
        self.database = DEFAULT_DATABASE
        # Two sessions may share one Spark session, so their view names must not collide.
        self._view_prefix = f"lakelog_{new_attempt()}_" if view_prefix is None else view_prefix
        self._views = 0

    @property
    def catalogs(self) -> CatalogNames:
        """The names of the session's catalogs."""
        return CatalogNames(self._first, tuple(self.tables.list_catalogs()))

    def create_catalog(self, name: str, options: Mapping[str, str]) -> None:
        """Adds a catalog to the session. Raises AlreadyExists, InvalidRequest for an invalid name, InvalidOption."""
        self.catalogs.check_new(name)
        self.tables.create_catalog(name, options)
        self.engine.update_catalogs()

    def drop_catalog(self, name: str) -> None:
        """Removes a catalog from the session. Raises NotFound, InvalidRequest for the first and the current one."""
        catalog = self.catalogs.need(name)
        if catalog == FIRST:
            raise InvalidRequest(f"catalog '{name}' cannot be dropped: it is the default catalog of the session")
        if catalog == self.current_catalog:
            raise InvalidRequest(f"catalog '{name}' is the current one: run USE CATALOG {self._first} first")
        self.tables.drop_catalog(catalog)
        self.engine.update_catalogs()

    def use_catalog(self, name: str) -> None:
        """Makes the catalog current, in its default database. Raises NotFound, which lists the known ones."""
        self.current_catalog = self.catalogs.need(name)
        self.database = DEFAULT_DATABASE

    def use_database(self, name: str) -> None:
        """Makes a database of the current catalog current. Raises NotFound."""
        known = self.tables.list_databases(self.current_catalog)
        if name not in known and name != DEFAULT_DATABASE:
            raise NotFound(f"database '{name}' does not exist{did_you_mean(name, known)} Known: {', '.join(known)}")
        self.database = name

    def find(self, name: Name) -> Identifier | None:
        """The table that a name refers to; None if it names a catalog outside of lakelog."""
        *front, table = name.parts
        catalog = self.catalogs.find(front[0]) if len(front) == 2 else self.current_catalog
        return None if catalog is None else Identifier(front[-1] if front else self.database, table, catalog)

    def resolve(self, name: Name) -> Identifier:
        """Like find, but raises NotFound for a foreign catalog."""
        identifier = self.find(name)
        if identifier is None:
            raise self.catalogs.unknown(name.parts[0])
        return identifier

    def identifier(self, name: str, catalog: str | None = None) -> Identifier:
        """The table that a text such as ``t``, ``db.t`` or ``catalog.db.t`` refers to, by default in this catalog.

        Raises NotFound for an unknown catalog, InvalidRequest for an invalid name.
        """
        here = self.current_catalog if catalog is None else catalog
        identifier = identifier_of(name, self.database if here == self.current_catalog else DEFAULT_DATABASE)
        catalog_name = self.catalogs.need(identifier.catalog) if identifier.catalog else here
        return Identifier(identifier.database, identifier.table, catalog_name)

    def parts_of(self, identifier: Identifier) -> tuple[str, ...]:
        """The parts of the table's name in this session, independent of the current catalog."""
        is_bare = identifier.catalog == FIRST != self.current_catalog
        return (self._first, *identifier.parts) if is_bare else identifier.parts

    def resolve_database(self, name: Name | None) -> tuple[str, str]:
        """The catalog and the database of ``db`` or ``catalog.db``; the current ones of None.

        Raises NotFound for a foreign catalog.
        """
        if name is None:
            return self.current_catalog, self.database
        catalog = self.catalogs.need(name.parts[0]) if len(name.parts) == 2 else self.current_catalog
        return catalog, name.parts[-1]

    def own_database(self, name: Name) -> tuple[str, str] | None:
        """The catalog and the name of a lakelog database; None for a database that only Spark may know."""
        *front, database = name.parts
        catalog = self.catalogs.find(front[0]) if front else self.current_catalog
        if catalog is None or len(front) > 1 or database not in self.tables.list_databases(catalog):
            return None
        return catalog, database

    def is_catalog_alone(self, name: str) -> bool:
        """Returns whether a possible database name is only a catalog's name, which Spark also accepts there."""
        return self.catalogs.find(name) is not None and name not in self.tables.list_databases(self.current_catalog)

    def is_hidden(self, name: Name) -> bool:
        """Returns whether a temporary view of Spark hides a lakelog table of this name."""
        return len(name.parts) == 1 and self.engine.is_spark_relation(name.sql)

    def own_table(self, name: Name) -> tuple[Identifier, TableSchema] | None:
        """The lakelog table of this name and its schema; None for a relation that only Spark knows. Raises NotFound."""
        identifier = self.find(name)
        schema = None if identifier is None else self.tables.load_schema(identifier)
        if identifier is not None and schema is not None:
            return identifier, schema
        if self.engine.is_spark_relation(name.sql):
            return None
        raise self.no_table(name)

    def changed_table(self, name: Name) -> tuple[Identifier, TableSchema] | None:
        """Like own_table, for a statement that changes rows. Raises InvalidRequest for a view."""
        table = self.own_table(name)
        if table is None and self.engine.is_view(name.sql):
            raise InvalidRequest(f"'{name}' is a view, whose rows are not changed: write the name of its table")
        return table

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool) -> None:
        """Creates a table, and its database if missing, so that statements from manuals run unchanged."""
        if identifier.database not in self.tables.list_databases(identifier.catalog):
            self.tables.create_database(identifier.database, True, identifier.catalog)
        self.tables.create_table(identifier, schema, if_not_exists)

    def exists(self, identifier: Identifier) -> bool:
        return self.tables.load_schema(identifier) is not None

    def no_table(self, name: Name) -> NotFound:
        """The error for a name that neither lakelog nor Spark knows."""
        identifier = self.find(name)
        if identifier is None:
            return self.catalogs.unknown(name.parts[0])
        where = "" if identifier.catalog == FIRST else f" of catalog '{identifier.catalog}'"
        databases = self.tables.list_databases(identifier.catalog)
        if identifier.database not in (*databases, DEFAULT_DATABASE):
            near = did_you_mean(identifier.database, databases)
            return NotFound(f"table '{name}' does not exist: there is no database '{identifier.database}'{where}{near}")
        there = (
            self.tables.list_tables(identifier.database, identifier.catalog) if identifier.database in databases else []
        )
        near = did_you_mean(identifier.table, there)
        return NotFound(f"table or view '{name}' does not exist in database '{identifier.database}'{where}{near}")

    def run_query(self, plan: QueryPlan) -> object:
        """Runs a plan on the engine. Raises UnsupportedStatement for a text that neither side can parse."""
        with plan.explained():
            return self.engine.run_query(plan)

    def new_view(self) -> str:
        """A new unique view name."""
        self._views += 1
        return f"{self._view_prefix}{self._views}"
