"""Options of the catalog of a warehouse, given when it is opened."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Declared, Option
from lakelog.options.parts import CATALOGS

CATALOG_TYPE: Final = Option(
    "catalog.type",
    str,
    "filesystem",
    "What knows the names of databases and tables: the directories of the warehouse (filesystem), a database that "
    "SQLAlchemy opens (sql), laid out as by Paimon's JDBC catalog, or a server of Paimon's REST catalog (rest).",
    scope=("lake",),
    choices=CATALOGS,
)
CATALOG_URI: Final = Option(
    "catalog.uri",
    str,
    None,
    "SQLAlchemy URL of the database of a sql catalog, such as postgresql+psycopg://user:password@host/database or "
    "sqlite:////data/catalog.db; or the address of a rest catalog's server, such as https://host:port.",
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

CATALOG_TOKEN: Final = Option(
    "catalog.token",
    str,
    None,
    "Bearer token for the server of a rest catalog; it goes with every request, so give an https address.",
    scope=("lake",),
    secret=True,
)
CATALOG_WAREHOUSE: Final = Option(
    "catalog.warehouse",
    str,
    None,
    "Name of the warehouse at the server of a rest catalog; by default the warehouse as it was given.",
    scope=("lake",),
)

CATALOG_EXTERNAL_PATHS: Final = Option(
    "catalog.external-paths",
    str,
    None,
    "Directories, with commas, in which tables may have data files outside of their own directory (Paimon's "
    "data-file.external-paths), or an embedded log. Such files are read and never deleted. None unless given.",
    scope=("lake",),
)

CATALOG_OPTIONS: Final = Declared(
    [CATALOG_TYPE, CATALOG_URI, CATALOG_KEY, CATALOG_TOKEN, CATALOG_WAREHOUSE, CATALOG_EXTERNAL_PATHS]
)
COMMITS_BY_SERVER: Final = ("rest",)
"""Types of catalogs whose tables must be opened through them, because a server commits to them."""
