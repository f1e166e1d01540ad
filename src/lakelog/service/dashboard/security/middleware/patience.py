"""Limits on the time of a request's head and on the number of connections, against idle and slow clients."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 10.0
"""Maximum seconds from the connection, or the first byte after an answer, to the end of a request's head. Also from an
answer to the end of a body that came too late for it."""


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP with a time limit for a request's head; uvicorn limits only the pause between requests."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts to wait for the first request. Called by asyncio."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            transport.abort()  # it has sent no request yet, but uses a file descriptor
            return
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Receives bytes. Called by asyncio."""
        super().data_received(data)
        self._wait_for_head()

    def on_response_complete(self) -> None:
        """Ends an answer. Called by uvicorn; the unread rest of a body may follow."""
        super().on_response_complete()
        if self.conn.our_state is h11.DONE:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the wait. Called by asyncio."""
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
