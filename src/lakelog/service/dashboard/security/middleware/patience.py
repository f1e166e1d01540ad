"""Connections that wait only so long for a request's head, and are only so many: what asks nothing takes no place."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 10.0
"""From the connection, or the first byte behind an answer, to the end of a request's head; also from an answer to the
end of a body that came too late for it."""


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP, with a limit on the time of a request's head; it has one for the pause between requests only."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first request; called by asyncio."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            transport.abort()  # it asks nothing yet, but takes a file of the process
            return
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Takes bytes; called by asyncio."""
        super().data_received(data)
        self._wait_for_head()

    def on_response_complete(self) -> None:
        """Ends an answer; called by uvicorn. The rest of a body may follow that nobody reads."""
        super().on_response_complete()
        if self.conn.our_state is h11.DONE:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the waiting; called by asyncio."""
        super().connection_lost(exc)
        self._stop_waiting()

    def _wait_for_head(self) -> None:
        is_answered = self.conn.our_state is h11.DONE
        if self.conn.their_state is not h11.IDLE and not is_answered:
            self._stop_waiting()
        elif self._overdue is None:
            self._overdue = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
