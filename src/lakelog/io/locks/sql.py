"""A lock by a row of a database that all writers share, through SQLAlchemy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from lakelog.errors import CommitUnknown
from lakelog.io.names import new_attempt
from lakelog.io.remote.database import database_errors, engine_of, error_text
from lakelog.io.storage.delegating import WAIT_S, CreateLock, slot_of
from lakelog.options.storage import STORAGE_LOCK_ADDRESS

_ROWS = sa.Table(
    "lakelog_locks",
    sa.MetaData(),
    sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("holder", sa.String(32), nullable=False),
)


@dataclass(frozen=True)
class SqlLock(CreateLock):
    """A transaction that has changed the row of the path's slot, so that a second transaction waits.

    It ends with the connection, so that the database releases it if the holder dies. The table ``lakelog_locks`` is
    created if it is missing. ``url`` is SQLAlchemy's and may contain a password.
    """

    is_local: ClassVar[bool] = False

    url: str = field(repr=False)

    @contextlib.contextmanager
    def held(self, path: str) -> Iterator[None]:
        slot = slot_of(path)
        with contextlib.ExitStack() as stack:
            with database_errors("the lock of the storage is unavailable"):
                engine = engine_of(self.url, _ROWS.metadata, STORAGE_LOCK_ADDRESS.key, WAIT_S)
                connection = stack.enter_context(engine.connect())
                _change(connection, slot)
            yield
            try:
                connection.commit()
            except SQLAlchemyError as why:
                raise CommitUnknown(
                    f"the lock of '{path}' may have been lost before the file was written: {error_text(why)}"
                ) from None


def _change(connection: sa.Connection, slot: int) -> None:
    """Waits for the row and changes it; creates it if it does not exist."""
    change = sa.update(_ROWS).where(_ROWS.c.slot == slot).values(holder=new_attempt())
    while connection.execute(change).rowcount == 0:
        connection.rollback()
        with contextlib.suppress(IntegrityError):
            connection.execute(sa.insert(_ROWS).values(slot=slot, holder=""))
            connection.commit()
            continue
        connection.rollback()
