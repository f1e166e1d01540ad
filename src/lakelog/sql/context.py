"""Where statements run: the current catalog and database, and what names mean there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from lakelog.catalog.base import Identifier
from lakelog.errors import NotFound
from lakelog.io.names import new_attempt
from lakelog.spec.schema import TableSchema
from lakelog.sql.cursor import Name
from lakelog.sql.engine import Engine, Tables
from lakelog.sql.plan import QueryPlan

# Names that statements written for Arctic, Amoro or from their manuals call the catalog by.
FORMER_CATALOG_NAMES = ("arctic", "amoro", "catalog")
DEFAULT_DATABASE = "default"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``, did you mean 'x'?`` for the nearest known name, else nothing."""
    by_fold = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), by_fold, 1)
    return f", did you mean '{by_fold[near[0]]}'?" if near else ""


class Context:
    """The state of one SQL session.

    ``tables`` and ``engine`` do the work; ``catalog`` is the session's one catalog by its own name, which also
    answers to the names that older statements use.
    """

    def __init__(
        self, tables: Tables, engine: Engine, catalog: str = "lakelog", view_prefix: str | None = None
    ) -> None:
        self.tables = tables
        self.engine = engine
        self.catalog = catalog
        self.database = DEFAULT_DATABASE
        # Two sessions may share one Spark session, so their views must not meet.
        self._view_prefix = f"lakelog_{new_attempt()}_" if view_prefix is None else view_prefix
        self._views = 0

    def is_catalog(self, name: str) -> bool:
        """Whether this name means the session's catalog."""
        return name.lower() in (self.catalog.lower(), *FORMER_CATALOG_NAMES)

    def use_catalog(self, name: str) -> None:
        """Makes the catalog current, in its default database. Raises NotFound naming the known ones."""
        if not self.is_catalog(name):
            raise self._no_catalog(name)
        self.database = DEFAULT_DATABASE

    def use_database(self, name: str) -> None:
        """Makes a database current. Raises NotFound."""
        known = self.tables.list_databases()
        if name not in known and name != DEFAULT_DATABASE:
            raise NotFound(f"database '{name}' does not exist{did_you_mean(name, known)} Known: {', '.join(known)}")
        self.database = name

    def find(self, name: Name) -> Identifier | None:
        """The table that a name would mean; None if it names a catalog that is not lakelog's."""
        *front, table = name.parts
        if len(front) == 2 and not self.is_catalog(front[0]):
            return None
        return Identifier(front[-1] if front else self.database, table)

    def resolve(self, name: Name) -> Identifier:
        """Like find, but a foreign catalog is NotFound."""
        found = self.find(name)
        if found is None:
            raise self._no_catalog(name.parts[0])
        return found

    def resolve_database(self, name: Name) -> str:
        """The database of ``db`` or ``catalog.db``. Raises NotFound for a foreign catalog."""
        if len(name.parts) == 2 and not self.is_catalog(name.parts[0]):
            raise self._no_catalog(name.parts[0])
        return name.parts[-1]

    def own_table(self, name: Name) -> tuple[Identifier, TableSchema] | None:
        """The lakelog table of this name and its schema; None for one that only Spark knows. Raises NotFound."""
        identifier = self.find(name)
        schema = None if identifier is None else self.tables.load_schema(identifier)
        if identifier is not None and schema is not None:
            return identifier, schema
        if self.engine.is_spark_relation(name.sql):
            return None
        raise self.no_table(name)

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool) -> None:
        """Makes a table, and its database if that is missing: statements from manuals run as they stand."""
        if identifier.database not in self.tables.list_databases():
            self.tables.create_database(identifier.database, if_not_exists=True)
        self.tables.create_table(identifier, schema, if_not_exists)

    def exists(self, identifier: Identifier) -> bool:
        """Whether the catalog knows the table."""
        return self.tables.load_schema(identifier) is not None

    def no_table(self, name: Name) -> NotFound:
        """The error to raise for a name that neither lakelog nor Spark knows."""
        identifier = self.resolve(name)
        databases = self.tables.list_databases()
        if identifier.database not in (*databases, DEFAULT_DATABASE):
            near = did_you_mean(identifier.database, databases)
            return NotFound(f"table '{name}' does not exist: there is no database '{identifier.database}'{near}")
        there = self.tables.list_tables(identifier.database) if identifier.database in databases else []
        near = did_you_mean(identifier.table, there)
        return NotFound(f"table or view '{name}' does not exist in database '{identifier.database}'{near}")

    def run_query(self, plan: QueryPlan) -> object:
        """Runs a plan on the engine. Raises UnsupportedStatement for a text that neither side understands."""
        with plan.explained():
            return self.engine.run_query(plan)

    def new_view(self) -> str:
        """A view name that was not used before."""
        self._views += 1
        return f"{self._view_prefix}{self._views}"

    def _no_catalog(self, name: str) -> NotFound:
        known = (self.catalog, *(n for n in FORMER_CATALOG_NAMES if n != self.catalog))
        return NotFound(f"catalog '{name}' does not exist. Known: {', '.join(known)}")
