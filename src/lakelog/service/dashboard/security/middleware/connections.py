"""A listening socket that limits its connections, from the first packet on."""

from __future__ import annotations

import contextlib
import socket
from typing import Any
from weakref import WeakValueDictionary


class LimitedListener(socket.socket):
    """A TCP socket with at most ``most`` accepted connections. For one event loop.

    A connection counts from its accept to its end, so unfinished TLS handshakes count, too. At the limit, a new
    connection ends the oldest one without a running request; if all have one, the new one is closed.
    """

    most = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open: WeakValueDictionary[int, _Connection] = WeakValueDictionary()
        self._busy: set[int] = set()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection. Raises ConnectionAbortedError, which asyncio passes over, if it has no place."""
        accepted, address = super().accept()
        connection = _Connection(self.family, self.type, self.proto, accepted.detach())
        if len(self._open) >= self.most and not self._end_oldest():
            connection.close()
            raise ConnectionAbortedError("too many connections")
        number = connection.fileno()
        self._busy.discard(number)
        self._open[number] = connection
        connection.listener = self
        return connection, address

    def set_busy(self, number: int, is_busy: bool) -> None:
        """Notes that a connection (file descriptor) has a running request, or waits for one."""
        if is_busy and number in self._open:
            self._busy.add(number)
        else:
            self._busy.discard(number)

    def forget(self, number: int) -> None:
        self._open.pop(number, None)
        self._busy.discard(number)

    def _end_oldest(self) -> bool:
        number = next((number for number in self._open if number not in self._busy), None)
        if number is None:
            return False
        with contextlib.suppress(OSError):  # its client was faster
            self._open[number].shutdown(socket.SHUT_RDWR)  # the event loop reads the end, and closes it
        self.forget(number)
        return True


class _Connection(socket.socket):
    """An accepted connection, which the listener forgets when it is closed."""

    listener: LimitedListener | None = None

    def close(self) -> None:
        """Closes it. Called by the event loop."""
        if self.listener is not None:
            self.listener.forget(self.fileno())
            self.listener = None
        super().close()
