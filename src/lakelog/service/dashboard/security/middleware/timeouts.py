"""Limits on the time of a request's head and of unread answers, against idle and slow clients."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from lakelog.service.dashboard.security.middleware.connections import LimitedListener

HEAD_S: Final = 10.0
"""Maximum seconds from the connection, or the first byte after an answer, to the end of a request's head. Also from an
answer to the end of a body that came too late for it."""
UNREAD_S: Final = 30.0
"""Maximum seconds in which a client takes none of a waiting answer: it would hold one of the connections for ever."""
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that drops unsent bytes at the close."""


class TimeoutProtocol(H11Protocol):
    """uvicorn's HTTP with time limits for a request's head and for a client that does not read; uvicorn limits only the
    pause between requests.

    It tells the listener which connections have a running request.
    """

    _overdue: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _number = -1

    def __init__(self, listener: LimitedListener, **more: Any) -> None:
        super().__init__(**more)
        self._listener = listener

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts to wait for the first request. Called by asyncio."""
        super().connection_made(transport)
        self._number = transport.get_extra_info("socket").fileno()
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

    def pause_writing(self) -> None:
        """Starts to wait for the client to read. Called by asyncio when the answer fills the buffers."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_S, self._hang_up)

    def resume_writing(self) -> None:
        """Ends that wait. Called by asyncio."""
        super().resume_writing()
        self._stop_waiting_for_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the wait. Called by asyncio."""
        super().connection_lost(exc)
        self._stop_waiting()
        self._stop_waiting_for_reader()

    def _wait_for_head(self) -> None:
        is_answered = self.conn.our_state is h11.DONE
        is_running = self.conn.their_state is not h11.IDLE and not is_answered
        self._listener.set_busy(self._number, is_running)
        if is_running:
            self._stop_waiting()
        elif self._overdue is None:
            self._overdue = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _stop_waiting_for_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _hang_up(self) -> None:
        # without the reset, the kernel keeps the unsent bytes
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()
