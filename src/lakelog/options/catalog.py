"""Options of the catalog of a warehouse, given when it is opened."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Declared, Option

CATALOG_TYPE: Final = Option(
    "catalog.type",
    str,
    "filesystem",
    "What knows the names of databases and tables: the directories of the warehouse (filesystem), or a database that "
    "SQLAlchemy opens (sql), laid out as by Paimon's JDBC catalog.",
    scope=("lake",),
    choices=("filesystem", "sql"),
)
CATALOG_URI: Final = Option(
    "catalog.uri",
    str,
    None,
    "SQLAlchemy URL of the database of a sql catalog, such as postgresql+psycopg://user:password@host/database or "
    "sqlite:////data/catalog.db.",
    scope=("lake",),
    secret=True,
)
CATALOG_KEY: Final = Option(
    "catalog.key",
    str,
    "jdbc",
    "Name of this catalog in the database; several may share one.",
    scope=("lake",),
    aliases=("catalog-key",),
)

CATALOG_OPTIONS: Final = Declared([CATALOG_TYPE, CATALOG_URI, CATALOG_KEY])
