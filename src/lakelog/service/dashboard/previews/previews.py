"""Previews: at most two at a time, one per user, each in a process with limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson

import lakelog
from lakelog import errors
from lakelog.errors import LakelogError, Unavailable
from lakelog.service.dashboard.previews.grid import Grid, Request, to_json

_MODULE: Final = "lakelog.service.dashboard.previews.process"
_OVER_MEMORY: Final = "OverMemory"
_MEMORY: Final = 256 << 20
_TIME_S: Final = 10.0
_AT_ONCE: Final = 2
_WAITING: Final = 32
_ANSWER_BYTES: Final = 16 << 20


class Previews:
    """Reads previews in their own processes. ``connection`` are the arguments of ``lakelog.connect``.

    A preview may use ``memory_bytes`` more than its process has at its start, and ``time_s`` seconds.
    """

    def __init__(self, connection: dict[str, Any], memory_bytes: int = _MEMORY, time_s: float = _TIME_S) -> None:
        self._config = {"connect": connection, "memory_bytes": memory_bytes, "time_s": time_s}
        self._memory_bytes, self._time_s = memory_bytes, time_s
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def grid(self, request: Request, who: str = "") -> Grid:
        """The grid of a user's request. Raises the errors of reading, and Unavailable beyond the limits or if too many
        wait. A user has one at a time, so that a slow preview of one user does not block the others.
        """
        if self._waiting >= _WAITING:
            raise Unavailable("too many previews are being read: load the page again in a few seconds")
        self._waiting += 1
        turn = self._turns.setdefault(who, asyncio.Lock())
        try:
            async with turn, self._places:
                answer = await self._ask(request)
        finally:
            self._waiting -= 1
        if "grid" in answer:
            return Grid(**answer["grid"])
        if answer["error"] == _OVER_MEMORY:
            raise Unavailable(
                f"this preview needs more than {self._memory_bytes >> 20} MiB of memory: values or pages of the file "
                f"are very large. Query single columns in the Terminal, or lakelog head {request.table}"
            )
        kind: type[LakelogError] = getattr(errors, answer["error"], LakelogError)
        raise kind(answer["why"])

    def warm(self) -> None:
        """Starts the parent process of the previews unless it runs; returns at once."""
        with self._lock:
            self._start()

    def close(self) -> None:
        """Ends that process."""
        with self._lock:
            if self._control is not None:
                self._control.close()
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            self._process = self._control = None

    async def _ask(self, request: Request) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                await asyncio.to_thread(self._hand_over, theirs)
            reader, writer = await asyncio.open_connection(sock=ours, limit=_ANSWER_BYTES)
            writer.write(orjson.dumps(to_json(request)) + b"\n")
            try:
                body = await asyncio.wait_for(_whole(reader), self._time_s + 1)
            except TimeoutError:
                body = b""
                self.close()  # it has not forked; the next preview starts another one
            except OSError:
                body = b""  # the system has killed it
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
        if not body:
            raise Unavailable(
                f"this preview was not read within {self._time_s:g} s: its files are very large, or the storage is "
                f"slow. Query single columns in the Terminal, or lakelog head {request.table}"
            )
        return orjson.loads(body)  # type: ignore[no-any-return]

    def _hand_over(self, client: socket.socket) -> None:
        with self._lock:
            for is_last in (False, True):
                control = self._start()
                try:
                    socket.send_fds(control, [b"\n"], [client.fileno()])
                    return
                except OSError as gone:
                    self._process = None
                    if is_last:
                        raise Unavailable(f"the process that reads previews has ended: {gone}") from gone

    def _start(self) -> socket.socket:
        if self._process is None or self._process.poll() is not None or self._control is None:
            self._control, theirs = socket.socketpair()
            with theirs:
                own = str(Path(lakelog.__file__).parents[1])
                paths = [own, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
                self._process = subprocess.Popen(
                    [sys.executable, "-m", _MODULE],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
                    start_new_session=True,
                )
            self._control.sendall(orjson.dumps(self._config) + b"\n")
        return self._control


async def _whole(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while part := await reader.read(1 << 16):
        parts.append(part)
    return b"".join(parts)
