"""A real Flight server on a free port, in the process of the test, and its clients: ADBC, pyarrow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
from pyarrow import flight

from lakelog.service.serve.server import Server
from lakelog.service.serve.settings import ServeSettings

TOKEN = "a-token-for-tests-of-the-flight-server"
PASSWORD = "correct horse battery"


@dataclass
class RunningServer:
    """``address`` is a location of Flight."""

    server: Server
    address: str
    state: Path

    @contextlib.contextmanager
    def adbc(self, **options: str) -> Iterator[Any]:
        """A cursor of the ADBC driver."""
        with flight_sql.connect(self.address, options, autocommit=True) as connection, connection.cursor() as cursor:
            yield cursor

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """A client of pyarrow."""
        with flight.connect(self.address) as client:
            yield client

    def audited(self) -> str:
        """The text of the audit log."""
        return (self.state / "serve-audit.jsonl").read_text()


def bearer(token: str) -> flight.FlightCallOptions:
    """The options of a call with a token."""
    return flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])


@contextlib.contextmanager
def running_server(warehouse: Path, **settings: Any) -> Iterator[RunningServer]:
    """A server of a warehouse, until the end of the block."""
    state = warehouse / "_state"
    server = Server(ServeSettings(str(warehouse), state=state, **{"port": 0, **settings}))
    try:
        yield RunningServer(server, f"grpc://127.0.0.1:{server.port}", state)
    finally:
        server.close()
