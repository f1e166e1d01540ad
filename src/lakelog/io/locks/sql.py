"""A lock by a row of a database that all writers reach, through SQLAlchemy."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, SQLAlchemyError

from lakelog.errors import CommitUnknown, InvalidOption, Unavailable
from lakelog.io.create_lock import WAIT_S, CreateLock, slot_of
from lakelog.io.names import new_attempt
from lakelog.options.storage import STORAGE_LOCK_ADDRESS

_ROWS = sa.Table(
    "lakelog_locks",
    sa.MetaData(),
    sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("holder", sa.String(32), nullable=False),
)


@dataclass(frozen=True)
class SqlLock(CreateLock):
    """A transaction that has changed the row of the path's slot: every database makes a second one wait.

    It lasts as long as the connection, so that the database frees it when the holder dies. The table
    ``lakelog_locks`` is made when it is missing. ``url`` is SQLAlchemy's and may hold a password.
    """

    url: str = field(repr=False)

    @contextlib.contextmanager
    def held(self, path: str) -> Iterator[None]:
        slot = slot_of(path)
        with contextlib.ExitStack() as stack:
            with _database_errors("cannot be had"):
                connection = stack.enter_context(_engine(self.url).connect())
                _change(connection, slot)
            yield
            try:
                connection.commit()
            except SQLAlchemyError as why:
                raise CommitUnknown(
                    f"the lock of '{path}' may have been lost before it was made: {_text(why)}"
                ) from None


def _change(connection: sa.Connection, slot: int) -> None:
    """Waits for the row and changes it; makes it first if nobody has."""
    change = sa.update(_ROWS).where(_ROWS.c.slot == slot).values(holder=new_attempt())
    while connection.execute(change).rowcount == 0:
        connection.rollback()
        with contextlib.suppress(IntegrityError):
            connection.execute(sa.insert(_ROWS).values(slot=slot, holder=""))
            connection.commit()
            continue
        connection.rollback()


_ENGINES: dict[tuple[int, str], sa.Engine] = {}
_LOCK = threading.Lock()


def _engine(url: str) -> sa.Engine:
    """The connections to a database, one pool a process; makes the table."""
    key = (os.getpid(), url)
    with _LOCK:
        if key not in _ENGINES:
            try:
                parsed = sa.make_url(url)
                # SQLite waits for a lock as long as it is told; the others as long as it takes
                arguments: dict[str, Any] = {"timeout": WAIT_S} if parsed.get_backend_name() == "sqlite" else {}
                engine = sa.create_engine(parsed, connect_args=arguments, pool_pre_ping=True, max_overflow=-1)
            except (ArgumentError, ModuleNotFoundError) as why:
                raise InvalidOption(
                    f"option '{STORAGE_LOCK_ADDRESS.key}' is no URL of a database that can be opened ({_text(why)}): "
                    f"write 'postgresql+psycopg://user:password@host/database', with its driver installed"
                ) from None
            # of two who make the table at once, the loser finds it there
            with contextlib.suppress(OperationalError, IntegrityError):
                _ROWS.metadata.create_all(engine)
            _ENGINES[key] = engine
        return _ENGINES[key]


@contextlib.contextmanager
def _database_errors(what: str) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as why:
        raise Unavailable(f"the lock of the storage {what}: {_text(why)}") from None


def _text(why: Exception) -> str:
    """The first line of what the driver said: statements and URLs stand in later ones."""
    return str(getattr(why, "orig", None) or why).partition("\n")[0]
