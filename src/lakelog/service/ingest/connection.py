"""Connections to PostgreSQL: for queries, and for replication (psycopg 3)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lakelog.errors import InvalidRequest, LakelogError, Unavailable

Connection = psycopg.Connection[tuple[Any, ...]]

_SETTINGS: Final = (
    "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c extra_float_digits=3 -c bytea_output=hex "
    "-c row_security=off -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
"""Settings on which the texts of values depend; a policy that hides rows is an error, as for ``pg_dump``."""
_CONNECT_S: Final = 10
_STARTS: Final = "the database system is "
"""Prefix of a server's message while it starts, recovers or stops."""


class Server:
    """The address of one database: ``postgres://user@host:port/database``, with libpq's parameters."""

    def __init__(self, url: str) -> None:
        self.was_met = False  # it has answered, so another failure may end by itself
        try:
            self._parameters = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise InvalidRequest(
                "the source is not an address of PostgreSQL: write postgres://user@host:5432/database"
            ) from None  # a password may be anywhere in it
        if not self._parameters.get("dbname"):
            raise InvalidRequest("the address names no database: write postgres://user@host:5432/database")

    @property
    def name(self) -> str:
        """Host, port and database, without user and password."""
        p = self._parameters
        return f"{p.get('host', 'localhost')}:{p.get('port', 5432)}/{p['dbname']}"

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turns psycopg's errors into Unavailable, or into InvalidRequest if a retry cannot help."""
        try:
            yield
        except LakelogError:
            raise
        except psycopg.errors.InsufficientPrivilege as why:
            raise InvalidRequest(
                f"PostgreSQL {self.name}: {_first_line(why)}. The user needs SELECT on the tables, the attribute "
                "REPLICATION, and for a new publication to own the tables; or create the publication yourself"
            ) from None
        except psycopg.errors.ConfigurationLimitExceeded as why:
            raise InvalidRequest(
                f"PostgreSQL {self.name}: {_first_line(why)}. A copy needs two replication slots: raise "
                "max_replication_slots and max_wal_senders"
            ) from None
        except psycopg.OperationalError as why:
            raise Unavailable(f"PostgreSQL {self.name}: {_first_line(why)}") from None
        except psycopg.Error as why:
            raise Unavailable(f"PostgreSQL {self.name}: {type(why).__name__}: {_first_line(why)}") from None

    def connect(self, replication: bool = False) -> Connection:
        """A connection in autocommit. Raises Unavailable, InvalidRequest."""
        parameters: dict[str, Any] = {
            "connect_timeout": _CONNECT_S,
            "application_name": "lakelog",
            "keepalives_idle": 10,
        }
        parameters |= self._parameters
        parameters["options"] = f"{parameters.get('options') or ''} {_SETTINGS}".strip()
        parameters["client_encoding"] = "UTF8"
        if replication:
            parameters["replication"] = "database"
        with self.errors():
            try:
                connection = psycopg.connect(**parameters, autocommit=True)
            except psycopg.OperationalError as why:
                self.was_met |= _STARTS in str(why)
                raise
        self.was_met = True
        return connection


def _first_line(why: BaseException) -> str:
    """The text of an error, on one line, without its details."""
    lines = str(why).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(why).__name__
