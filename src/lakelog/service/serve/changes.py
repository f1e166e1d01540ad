"""Endless streams of the changes of a table, each batch with the position after it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.logstore.clients import close_clients
from lakelog.options.log import LOG_CONSISTENCY, NORMALIZE
from lakelog.service.access.identity import Identity
from lakelog.service.serve.statements import Statements
from lakelog.table.log.scan import LogScan
from lakelog.table.tail.copy import STARTS
from lakelog.table.tail.subscribe import follow
from lakelog.table.tail.tail import Tail

_KEYS: Final = {"table", "position", "consistency"}
_SHAPE: Final = '{"changes": {"table": "db.t", "position": "earliest", "consistency": "transactional"}}'


class ChangeStream:
    """The changes of one client. It ends when ``stop`` is set; the client resumes from its last position."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self.schema: pa.Schema = tail.schema

    def batches(self, is_over: Callable[[], bool]) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        """Batches with the position after them as text; the first one is empty, and has that of the start.

        A later empty batch means that records without rows have passed. ``is_over`` says that the client has left.
        """
        nothing = pa.RecordBatch.from_pylist([], self.schema)
        reached: object = None
        batch = None
        while not is_over():
            if batch is not None or reached is not self._tail.reached:
                reached = self._tail.reached
                yield nothing if batch is None else batch, self._tail.position.encode()
            try:
                batch = self._tail.step()
            except StopIteration:
                return

    def close(self) -> None:
        """Ends the read, and the clients of the log that this thread has."""
        self._tail.close()
        close_clients()


def change_stream(
    statements: Statements, identity: Identity, request: Any, stop: threading.Event | str
) -> ChangeStream:
    """The changes that a request asks for: ``table``, ``position`` (``latest``, ``earliest``, ``latest-full``, or that
    of a batch) and ``consistency`` of the log (``eventual`` or ``transactional``, by default that of the table).

    Raises InvalidRequest, also for the position of another table, NotFound, OffsetExpired.
    """
    if not isinstance(request, Mapping) or "table" not in request or not set(request) <= _KEYS:
        raise InvalidRequest(f"a request for changes is {_SHAPE}")
    if not all(isinstance(value, str) for value in request.values()):
        raise InvalidRequest(f"table, position and consistency are text: {_SHAPE}")
    position = request.get("position", "latest")
    if not position.startswith("{") and position not in STARTS:
        raise InvalidRequest(
            f"position = '{position[:80]}' is none: send {', '.join(STARTS)}, or the position of a batch"
        )
    session = statements.session(identity.role)
    hints = {NORMALIZE.key: "false"}  # a reader stores no state on the server
    if "consistency" in request:
        hints[LOG_CONSISTENCY.key] = request["consistency"]
    hints = session.tables.canonical_options(hints, "read")
    table = session.tables.open(session.identifier(request["table"])).with_hints(hints)
    return ChangeStream(follow(LogScan(table), position, stop))
