"""Statements of catalogs and databases."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidOption, LakelogError, UnsupportedStatement
from lakelog.sql.ddl.table_definition import PROVIDERS
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result, matching, text_rows
from lakelog.sql.syntax.lexer import Kind, string_value
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class CreateDatabase(ParsedStatement, needs=Privilege.ADMIN):
    """``CREATE DATABASE|SCHEMA [IF NOT EXISTS] [catalog.]name [COMMENT …] [WITH DBPROPERTIES …]``."""

    name: Name
    if_not_exists: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateDatabase:
        """Reads the statement; ignores a COMMENT and properties, because a database has no file for them."""
        cursor.expect_words("CREATE")
        cursor.take()
        if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
        name = cursor.name("a database name", most=2)
        if cursor.accept_words("COMMENT"):
            cursor.text_literal("the comment of the database")
        if cursor.accept_words("WITH", "DBPROPERTIES") or cursor.accept_words("WITH", "PROPERTIES"):
            cursor.options()
        cursor.expect_end()
        return cls(cursor.source, name, if_not_exists)

    def run(self, session: SessionContext) -> object:
        """Creates the database. Raises AlreadyExists unless IF NOT EXISTS."""
        catalog, database = session.resolve_database(self.name)
        session.tables.create_database(database, self.if_not_exists, catalog)
        return empty_result()


@dataclass(frozen=True)
class AlterDatabase(ParsedStatement, needs=Privilege.ADMIN):
    """``ALTER DATABASE|SCHEMA|NAMESPACE [catalog.]name …`` of a database of Spark only."""

    name: Name

    @classmethod
    def parse(cls, cursor: TokenStream) -> AlterDatabase:
        """Reads the name; the rest is Spark's."""
        cursor.expect_words("ALTER")
        cursor.take()
        return cls(cursor.source, cursor.name("a database name", most=9))

    def run(self, session: SessionContext) -> object:
        """Spark's result. Raises UnsupportedStatement for a database of lakelog, which has no file for properties."""
        if session.own_database(self.name) is not None:
            raise self.source.error(
                self.source.start,
                f"a lakelog database has no properties: set them on the tables of '{self.name}'",
            )
        return session.engine.pass_through(self.source.text)


@dataclass(frozen=True)
class DropDatabase(ParsedStatement, needs=Privilege.ADMIN):
    """``DROP DATABASE|SCHEMA [IF EXISTS] [catalog.]name [CASCADE|RESTRICT]``."""

    name: Name
    if_exists: bool
    cascade: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> DropDatabase:
        cursor.expect_words("DROP")
        cursor.take()
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name("a database name", most=2)
        cascade = cursor.accept_words("CASCADE")
        if not cascade:
            cursor.accept_words("RESTRICT")
        cursor.expect_end()
        return cls(cursor.source, name, if_exists, cascade)

    def run(self, session: SessionContext) -> object:
        """Drops the database. Raises NotFound unless IF EXISTS."""
        catalog, database = session.resolve_database(self.name)
        if self.cascade and database in session.tables.list_databases(catalog):
            for table in session.tables.list_tables(database, catalog):
                session.engine.uncache_table(Identifier(database, table, catalog))
        session.tables.drop_database(database, self.if_exists, self.cascade, catalog)
        return empty_result()


@dataclass(frozen=True)
class DescribeDatabase(ParsedStatement, needs=Privilege.READ):
    """``DESCRIBE|DESC DATABASE|SCHEMA|NAMESPACE [EXTENDED] [catalog.]name``; Spark runs it for its own."""

    name: Name

    @classmethod
    def parse(cls, cursor: TokenStream) -> DescribeDatabase:
        cursor.take()
        cursor.take()
        if cursor.peek(1) is not None:
            cursor.accept_words("EXTENDED")
        name = cursor.name("a database name", most=2)
        cursor.expect_end()
        return cls(cursor.source, name)

    def run(self, session: SessionContext) -> object:
        """One row per property: info_name, info_value."""
        database_name = session.own_database(self.name)
        if database_name is None:
            return session.engine.pass_through(self.source.text)
        catalog, database = database_name
        rows = [("Catalog Name", session.catalogs.shown(catalog)), ("Namespace Name", database)]
        return text_rows(("info_name", "info_value"), rows)


@dataclass(frozen=True)
class ShowDatabases(ParsedStatement, needs=Privilege.READ):
    """``SHOW DATABASES|SCHEMAS [IN|FROM catalog] [[LIKE] 'pattern']``."""

    catalog: str | None
    pattern: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowDatabases:
        cursor.expect_words("SHOW")
        cursor.take()
        catalog, pattern = None, None
        if cursor.accept_words("IN") or cursor.accept_words("FROM"):
            catalog = cursor.name_part("a catalog name")
        if cursor.accept_words("LIKE") or cursor.peek() is not None:
            pattern = cursor.text_literal("IN, FROM, LIKE or a pattern in quotes")
        cursor.expect_end()
        return cls(cursor.source, catalog, pattern)

    def run(self, session: SessionContext) -> object:
        """One row per database: namespace. Raises NotFound for the catalog."""
        catalog = session.current_catalog if self.catalog is None else session.catalogs.need(self.catalog)
        names = matching(session.tables.list_databases(catalog), self.pattern)
        return text_rows(("namespace",), ((n,) for n in names))


@dataclass(frozen=True)
class Use(ParsedStatement, needs=Privilege.READ):
    """``USE db``, ``USE catalog.db``, ``USE CATALOG c``, ``USE DATABASE db``, ``SET CATALOG c``."""

    catalog: str | None
    database: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> Use:
        """Reads the statement. The name of SET CATALOG may be in quotes."""
        if cursor.accept_words("SET", "CATALOG") or _with_name(cursor, "CATALOG"):
            token = cursor.peek()
            quoted = token is not None and token.kind is Kind.STRING
            name = string_value(cursor.take()) if quoted else cursor.name_part("a catalog name")
            cursor.expect_end()
            return cls(cursor.source, name, None)
        if not any(_with_name(cursor, word) for word in ("DATABASE", "SCHEMA", "NAMESPACE")):
            cursor.expect_words("USE")
        database = cursor.name("a database name", most=2)
        cursor.expect_end()
        return cls(cursor.source, database.parts[0] if len(database.parts) == 2 else None, database.parts[-1])

    def run(self, session: SessionContext) -> object:
        """Changes the session. Raises NotFound and leaves the session unchanged."""
        before = session.current_catalog, session.database
        try:
            if self.catalog is not None:
                session.use_catalog(self.catalog)
            if self.database is not None and self.catalog is None and session.is_catalog_alone(self.database):
                session.use_catalog(self.database)
            elif self.database is not None:
                session.use_database(self.database)
        except LakelogError:
            session.current_catalog, session.database = before
            raise
        return empty_result()


def _with_name(cursor: TokenStream, word: str) -> bool:
    """Skips ``USE word`` if a name follows, so that a database may be called ``schema``."""
    after = cursor.peek(2)
    return after is not None and not after.is_symbol(".") and cursor.accept_words("USE", word)


_TYPE = "type"


@dataclass(frozen=True)
class CreateCatalog(ParsedStatement, needs=Privilege.ADMIN):
    """``CREATE CATALOG [IF NOT EXISTS] name [COMMENT '…'] WITH ('warehouse' = '…', …)``, in Flink's form.

    The catalog belongs to the session only. Its options may be secrets, so no error prints them.
    """

    name: str
    if_not_exists: bool
    options: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateCatalog:
        """Reads the statement; its comment is ignored. Raises UnsupportedStatement without the text of the line."""
        cursor.expect_words("CREATE", "CATALOG")
        if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
        name = cursor.name_part("a catalog name")
        if cursor.accept_words("COMMENT"):
            cursor.text_literal("the comment of the catalog")
        try:
            cursor.expect_words("WITH")
            options = cursor.options()
            cursor.expect_end()
        except UnsupportedStatement as refused:
            location = str(refused).partition(": ")[0]
            raise UnsupportedStatement(
                f"{location}: the options of catalog '{name}' are invalid from here: write CREATE CATALOG {name} WITH "
                "('warehouse' = '…', 'catalog.type' = '…', …)"
            ) from None
        return cls(cursor.source, name, if_not_exists, options)

    def run(self, session: SessionContext) -> object:
        """Adds the catalog. Raises AlreadyExists unless IF NOT EXISTS, InvalidOption."""
        if self.if_not_exists and session.catalogs.has(self.name):
            return empty_result()
        options = dict(self.options)
        kind = options.pop(_TYPE, PROVIDERS[0])
        if kind.lower() not in PROVIDERS:
            raise InvalidOption(
                f"catalog '{self.name}' of type '{kind}' is not a lakelog catalog: set Spark's "
                f"'spark.sql.catalog.{self.name}'"
            )
        session.create_catalog(self.name, options)
        return empty_result()


@dataclass(frozen=True)
class DropCatalog(ParsedStatement, needs=Privilege.ADMIN):
    """``DROP CATALOG [IF EXISTS] name``: removes it from the session, and leaves its contents."""

    name: str
    if_exists: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> DropCatalog:
        cursor.expect_words("DROP", "CATALOG")
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name_part("a catalog name")
        cursor.expect_end()
        return cls(cursor.source, name, if_exists)

    def run(self, session: SessionContext) -> object:
        """Removes it. Raises NotFound unless IF EXISTS, InvalidRequest for the first and the current one."""
        if not self.if_exists or session.catalogs.has(self.name):
            session.drop_catalog(self.name)
        return empty_result()


@dataclass(frozen=True)
class ShowCatalogs(ParsedStatement, needs=Privilege.READ):
    """``SHOW CATALOGS``."""

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowCatalogs:
        cursor.expect_words("SHOW", "CATALOGS")
        cursor.expect_end()
        return cls(cursor.source)

    def run(self, session: SessionContext) -> object:
        """One row per catalog, the first one first; aliases of older manuals are not listed."""
        return text_rows(("catalog",), ((name,) for name in session.catalogs.all()))
