"""Options that a user's statement must not set: those that name a file of the server, a program or a class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from lakelog.catalog import CATALOGS
from lakelog.errors import NotAllowed
from lakelog.io import scheme_of
from lakelog.io.locks import LOCKS
from lakelog.logstore import LOG_SYSTEMS, client_properties, log_factory
from lakelog.logstore.factory import FILE, VALUE_OR_FILE
from lakelog.options.catalog import CATALOG_EXTERNAL_PATHS, CATALOG_TYPE, CATALOG_URI, PARTS_PREFIX
from lakelog.options.compatibility import PROPERTIES_PREFIX
from lakelog.options.log import LOG_ADDRESS, LOG_TYPE
from lakelog.options.secrets import is_reference
from lakelog.options.storage import HADOOP_PREFIX, STORAGE_LOCK, STORAGE_LOCK_ADDRESS
from lakelog.table.catalog_config import WAREHOUSE
from lakelog.table.model.log_options import by_canonical_key

_A_FILE: Final = re.compile(r"(?i)file:|path|(?:^|[,:{\"\s])\.{0,2}/|cert|keyfile")
_REMOTE_DATABASES: Final = ("postgresql", "mysql", "mariadb")
_DATABASE_URL: Final = re.compile(
    r"[\w+]+://(?:[^:/?#@]*(?::[^/?#@]*)?@)?(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d+)?(?:/[^/?#]*)?(?:\?(?P<query>[^#]*))?",
    re.ASCII,
)
"""A URL that all parsers read alike, with a host: without one, a driver connects to a socket in a directory."""
_DATABASE_PARAMETERS: Final = ("application_name", "charset", "connect_timeout", "sslmode")
"""Its parameters that name no file. MySQL's driver even has one that lets its server ask for any file."""
_WHY: Final = "start the server with --allow-local-files and log in as admin, or set the option in your own program"


def check_options(options: Mapping[str, str], files: bool) -> None:
    """Checks options of a table, a read or a write, in any spelling. Raises NotAllowed.

    ``files`` allows files of the server. Options that load or run code are always refused.
    """
    options = by_canonical_key(options)
    for key, value in options.items():
        if is_reference(value) and not files:
            raise NotAllowed(f"option '{key}' refers to a secret of the server, which is not allowed here; {_WHY}")
        if key.startswith(PROPERTIES_PREFIX):
            _check_property(key, key.removeprefix(PROPERTIES_PREFIX), value)
        elif key.startswith(HADOOP_PREFIX):
            raise NotAllowed(f"option '{key}' cannot be set here: it may load classes and name files; {_WHY}")
    address = options.get(LOG_ADDRESS.key)
    if address is not None and not files and _is_local_log(options.get(LOG_TYPE.key), address):
        raise NotAllowed(
            f"option '{LOG_ADDRESS.key}' names a file on the server, which is not allowed here: leave it out to keep "
            f"the log in its table's directory; or {_WHY}"
        )


def check_hints(options: Mapping[str, str]) -> None:
    """Checks options (canonical keys) of one read or write. Raises NotAllowed for those of the log's client."""
    key = next((key for key in options if key.startswith(PROPERTIES_PREFIX)), None)
    if key is not None:
        raise NotAllowed(f"option '{key}' cannot be set for one statement here: it belongs to the table")


def check_catalog_options(name: str, options: Mapping[str, str], files: bool) -> None:
    """Checks the options of a catalog that a statement creates. Raises NotAllowed, without their values."""
    if files:
        return
    for key, value in options.items():
        if is_reference(value):
            raise NotAllowed(f"option '{key}' of catalog '{name}' refers to a secret of the server: {_WHY}")
        if key.startswith((HADOOP_PREFIX, PARTS_PREFIX)):
            raise NotAllowed(f"option '{key}' of catalog '{name}' may load classes and name files: {_WHY}")
    if CATALOG_EXTERNAL_PATHS.key in options:
        raise NotAllowed(f"'{CATALOG_EXTERNAL_PATHS.key}' of catalog '{name}' names directories of the server: {_WHY}")
    warehouse = options.get(WAREHOUSE, "")
    kind = options.get(CATALOG_TYPE.key, "").lower()
    is_served = kind in CATALOGS and CATALOGS.load(kind).commits_by_server
    if scheme_of(warehouse) == "file" and not is_served:
        raise NotAllowed(
            f"the warehouse of catalog '{name}' is a directory on the server, which is not allowed here: give a URI "
            f"such as 's3://bucket/warehouse', or {_WHY}"
        )
    uri = options.get(CATALOG_URI.key, "")
    if uri and urlsplit(uri).scheme.partition("+")[0] not in (*_REMOTE_DATABASES, "http", "https"):
        raise NotAllowed(
            f"'{CATALOG_URI.key}' of catalog '{name}' is a database in a file of the server or of an unknown kind, "
            f"which is refused here: give the URL of a PostgreSQL or of a REST catalog, or {_WHY}"
        )
    _check_database(name, CATALOG_URI.key, uri)
    lock = options.get(STORAGE_LOCK_ADDRESS.key)
    if lock is not None and urlsplit(lock).scheme.partition("+")[0] not in _REMOTE_DATABASES:
        raise NotAllowed(f"'{STORAGE_LOCK_ADDRESS.key}' of catalog '{name}' names a file of the server: {_WHY}")
    _check_database(name, STORAGE_LOCK_ADDRESS.key, lock or "")
    kind = options.get(STORAGE_LOCK.key, "").lower()
    if kind in LOCKS and LOCKS.load(kind).is_local:
        raise NotAllowed(f"'{STORAGE_LOCK.key}' = '{kind}' of catalog '{name}' writes files of the server: {_WHY}")


def _check_database(name: str, key: str, url: str) -> None:
    """Checks that the URL of a database names no socket and no file. Raises NotAllowed."""
    if url.partition(":")[0].partition("+")[0] not in _REMOTE_DATABASES:
        return
    match = _DATABASE_URL.fullmatch(url)
    if match is None:
        raise NotAllowed(
            f"'{key}' of catalog '{name}' names no host, or has characters that need an escape such as '%2F'; a socket "
            f"of the server is refused here: write 'postgresql+psycopg://user:password@host/database', or {_WHY}"
        )
    parameters = {parameter for parameter, _ in parse_qsl(match["query"] or "", keep_blank_values=True)}
    if refused := sorted(parameters.difference(_DATABASE_PARAMETERS)):
        raise NotAllowed(
            f"the parameter '{refused[0]}' of '{key}' of catalog '{name}' may name files of the server, which is "
            f"refused here; these may be given: {', '.join(_DATABASE_PARAMETERS)}; or {_WHY}"
        )


def _check_property(key: str, name: str, value: str) -> None:
    known = client_properties()
    allowed = sorted(other for other in known if known[other] != FILE)
    if name not in allowed:
        raise NotAllowed(
            f"option '{key}' cannot be set here: options of the log's client may load libraries, run programs or "
            f"name files. Allowed: {', '.join(allowed)}. Certificate files must be set by a program or by `lakelog "
            "sql`; statements here then use them"
        )
    if known[name] == VALUE_OR_FILE and _A_FILE.search(value):
        raise NotAllowed(
            f"option '{key}' names a file on the server, which would be sent to another machine: give the value itself"
        )


def _is_local_log(system: str | None, address: str) -> bool:
    """True if the address is a file, by its scheme or by default."""
    if system is None:
        return ("/" in address or "\\" in address) and "://" not in address
    name = system.strip()
    return name in LOG_SYSTEMS and log_factory(name).is_local
