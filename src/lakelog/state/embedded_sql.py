"""DuckDB, the SQL engine in this process: its settings, its names, and the time zone of its sessions."""

from __future__ import annotations

from typing import Any, Final

from lakelog.errors import InvalidRequest, NotInstalled
from lakelog.state.spark_functions import MACROS

SETTINGS: Final = {
    "threads": "2",
    "memory_limit": "1GB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
CLOSED: Final = "SET enable_external_access = false"
"""No access to files: the text of a query may come from the metadata of a table."""
INTERRUPTED: Final = "Query interrupted"
"""What DuckDB raises in place of the exception of a signal handler, which Ctrl-C and the end of a service are."""


def duckdb_module() -> Any:
    """The module of DuckDB. Raises NotInstalled."""
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ImportError as missing:
        raise NotInstalled("this needs DuckDB: pip install 'lakelog[sql]'") from missing
    return duckdb


def quoted(name: str) -> str:
    """A name in the SQL of DuckDB."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def prepare(db: Any, zone: str | None) -> None:
    """Sets the time zone of a session (None: this machine's) and creates ``MACROS``.

    Raises InvalidRequest for a zone that DuckDB does not know.
    """
    if zone:
        escaped = zone.replace("'", "''")
        try:
            db.execute(f"SET GLOBAL TimeZone = '{escaped}'")
        except duckdb_module().Error as unknown:
            raise InvalidRequest(
                f"time zone '{zone}' is not known to DuckDB: set 'spark.sql.session.timeZone' to one that has a name, "
                "such as UTC or Europe/Paris"
            ) from unknown
    for macro in MACROS:
        db.execute(macro)


def machine_zone() -> str:
    """The name of the time zone of this machine. Raises NotInstalled without DuckDB."""
    return str(duckdb_module().connect(":memory:").execute("SELECT current_setting('TimeZone')").fetchone()[0])
