"""Messages between a terminal and its worker: one JSON object per line, over dedicated pipes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

import orjson

_OPTIONS: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


class Pipe:
    """One end of the pipes. Lines are written atomically, from any thread."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes a message. Raises OSError if the other end is closed."""
        line = orjson.dumps(message, default=str, option=_OPTIONS)
        with self._lock:
            self._outgoing.write(line)
            self._outgoing.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        """The messages until the other end is closed."""
        while True:
            try:
                line = self._incoming.readline()
            except (OSError, ValueError):
                return
            if not line.endswith(b"\n"):
                return
            yield orjson.loads(line)

    def close(self) -> None:
        """Closes the sending direction."""
        with self._lock:
            try:
                self._outgoing.close()
            except OSError:
                return
