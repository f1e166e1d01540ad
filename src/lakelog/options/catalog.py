"""Options of the catalog of a warehouse, given when it is opened."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Declared, MemorySize, Option, options_in
from lakelog.options.parts import CATALOGS

CATALOG_TYPE: Final = Option(
    "catalog.type",
    str,
    "filesystem",
    "Catalog of databases and tables: warehouse directories (filesystem), a SQLAlchemy database in Paimon's JDBC "
    "layout (sql), or a server of Paimon's REST catalog (rest).",
    scope=("lake",),
    choices=CATALOGS,
)
CATALOG_URI: Final = Option(
    "catalog.uri",
    str,
    None,
    "SQLAlchemy URL of a sql catalog's database, such as postgresql+psycopg://user:password@host/database or "
    "sqlite:////data/catalog.db. For a rest catalog: address of the server, such as https://host:port.",
    scope=("lake",),
    secret=True,
)
CATALOG_KEY: Final = Option(
    "catalog.key",
    str,
    "jdbc",
    "Name of this catalog in the database. Several catalogs may share a database.",
    scope=("lake",),
    aliases=("catalog-key",),
)

CATALOG_TOKEN: Final = Option(
    "catalog.token",
    str,
    None,
    "Bearer token for the server of a rest catalog. Every request carries it, so use an https address.",
    scope=("lake",),
    secret=True,
)
CATALOG_WAREHOUSE: Final = Option(
    "catalog.warehouse",
    str,
    None,
    "Name of the warehouse on the server of a rest catalog. Default: the warehouse of the connection.",
    scope=("lake",),
)

CATALOG_EXTERNAL_PATHS: Final = Option(
    "catalog.external-paths",
    str,
    None,
    "Directories, separated by commas, for data files of tables outside their own directory (Paimon's "
    "data-file.external-paths), or for an embedded log. Such files are read and never deleted. Default: none.",
    scope=("lake",),
)

CATALOG_LOG_SERVERS: Final = Option(
    "catalog.log-servers",
    str,
    None,
    "Log servers (host:port, separated by commas) that users of the dashboard's terminal may name in table options. "
    "Servers of the catalog's tables are always allowed. Default: none. Users with the role admin, programs and "
    "`lakelog sql` are not limited.",
    scope=("lake",),
)
SQL_LOCAL_SIZE: Final = Option(
    "sql.local-size",
    MemorySize,
    MemorySize(512 << 20),
    "Maximum size of the data files that a statement reads, or of its result, for a lake that runs it in its own "
    "process although it could start Spark. 0: never. Without Spark there is no limit. Of the first catalog.",
    scope=("lake",),
)
PARTS_PREFIX: Final = "fields."
"""Prefix of the options that a catalog of another package has of its own."""

FOR_CALLERS: Final = (CATALOG_TYPE.key, CATALOG_EXTERNAL_PATHS.key, CATALOG_LOG_SERVERS.key, SQL_LOCAL_SIZE.key)
"""Options that are read before a catalog is opened, or by what guards it; no kind of catalog knows them."""

CATALOG_OPTIONS: Final = Declared(options_in(globals()), [PARTS_PREFIX])
