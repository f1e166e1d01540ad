"""Connections to databases through SQLAlchemy: one pool per database and process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DataError, IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from lakelog.errors import InvalidOption, InvalidRequest, Unavailable
from lakelog.io.machine import PerProcess
from lakelog.io.secrets import secret_value

_ENGINES: Final[PerProcess[tuple[str, int], sa.Engine]] = PerProcess()


def engine_of(url: str, tables: sa.MetaData, option: str, wait_s: float) -> sa.Engine:
    """The connection pool of a database; creates missing tables.

    ``option`` is the key of the option with the URL, which may contain a password or be a reference to a secret.
    ``wait_s`` is SQLite's lock timeout.
    Raises InvalidOption for a URL of no database, Unavailable.
    """
    return _ENGINES.get((url, id(tables)), lambda: _new_engine(url, tables, option, wait_s))


def _new_engine(url: str, tables: sa.MetaData, option: str, wait_s: float) -> sa.Engine:
    try:
        parsed = sa.make_url(secret_value(option, url))
        # SQLite waits for a lock until its timeout. The others wait without limit, and then read the result of the
        # first transaction, independent of the server's default isolation level.
        is_sqlite = parsed.get_backend_name() == "sqlite"
        more: dict[str, Any] = (
            {"connect_args": {"timeout": wait_s}} if is_sqlite else {"isolation_level": "READ COMMITTED"}
        )
        engine = sa.create_engine(parsed, pool_pre_ping=True, max_overflow=-1, **more)
    except (ArgumentError, ModuleNotFoundError) as why:
        raise InvalidOption(
            f"option '{option}' is not a valid database URL ({error_text(why)}): write "
            "'postgresql+psycopg://user:password@host/database', with its driver installed (pip install "
            "'lakelog[postgres]')"
        ) from None
    try:
        tables.create_all(engine)
    except (OperationalError, IntegrityError, ProgrammingError):
        # if two clients create a table concurrently, the second one finds it
        if not all(sa.inspect(engine).has_table(name) for name in tables.tables):
            raise
    return engine


@contextlib.contextmanager
def database_errors(what: str) -> Iterator[None]:
    """Context of a connection's use that translates errors of the database ``what`` to Unavailable.

    Raises InvalidRequest for a value that does not fit into its column, because a retry would fail again.
    """
    try:
        yield
    except DataError as why:
        raise InvalidRequest(f"{what}: {error_text(why)}") from None
    except SQLAlchemyError as why:
        raise Unavailable(f"{what}: {error_text(why)}") from None


def error_text(why: Exception) -> str:
    """The first line of the driver's error; later lines contain statements and URLs."""
    return str(getattr(why, "orig", None) or why).partition("\n")[0]
