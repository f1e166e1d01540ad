"""Connections to databases through SQLAlchemy: one pool for each database and process."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DataError, IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from lakelog.errors import InvalidOption, InvalidRequest, Unavailable

_ENGINES: dict[tuple[int, str, int], sa.Engine] = {}
_LOCK = threading.Lock()


def engine_of(url: str, tables: sa.MetaData, option: str, wait_s: float) -> sa.Engine:
    """The connections to a database; makes the tables that it has not.

    ``option`` is the key of the option that gave the URL, which may hold a password; ``wait_s`` is how long SQLite
    waits for others. Raises InvalidOption for a URL that names no database, Unavailable.
    """
    key = (os.getpid(), url, id(tables))
    with _LOCK:
        if key not in _ENGINES:
            try:
                parsed = sa.make_url(url)
                # SQLite waits for a lock as long as it is told; the others as long as it takes, and then look again at
                # what the first one has left, whatever level of isolation their administrator prefers
                is_sqlite = parsed.get_backend_name() == "sqlite"
                more: dict[str, Any] = (
                    {"connect_args": {"timeout": wait_s}} if is_sqlite else {"isolation_level": "READ COMMITTED"}
                )
                engine = sa.create_engine(parsed, pool_pre_ping=True, max_overflow=-1, **more)
            except (ArgumentError, ModuleNotFoundError) as why:
                raise InvalidOption(
                    f"option '{option}' is no URL of a database that can be opened ({error_text(why)}): "
                    f"write 'postgresql+psycopg://user:password@host/database', with its driver installed "
                    f"(pip install 'lakelog[postgres]')"
                ) from None
            try:
                tables.create_all(engine)
            except (OperationalError, IntegrityError, ProgrammingError):
                # of two who make a table at once, the loser finds it there
                if not all(sa.inspect(engine).has_table(name) for name in tables.tables):
                    raise
            _ENGINES[key] = engine
        return _ENGINES[key]


@contextlib.contextmanager
def database_errors(what: str) -> Iterator[None]:
    """Around the use of a connection: what the database fails with is Unavailable, ``what`` says to whom.

    A value that does not fit into its column is InvalidRequest: trying again is of no use.
    """
    try:
        yield
    except DataError as why:
        raise InvalidRequest(f"{what}: {error_text(why)}") from None
    except SQLAlchemyError as why:
        raise Unavailable(f"{what}: {error_text(why)}") from None


def error_text(why: Exception) -> str:
    """The first line of what the driver said: statements and URLs stand in later ones."""
    return str(getattr(why, "orig", None) or why).partition("\n")[0]
