"""Previews: at most two at a time, one per user, each in a process with limits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson

from lakelog import errors
from lakelog.errors import LakelogError, Unavailable
from lakelog.service.child_process import start_module
from lakelog.service.dashboard.previews.export import COMPLETE, FAILED, HEAD
from lakelog.service.dashboard.previews.grid import ExportRequest, Grid, Request, StreamRequest, TailRequest, to_json
from lakelog.service.dashboard.previews.tail import event

_MODULE: Final = "lakelog.service.dashboard.previews.process"
_OVER_MEMORY: Final = "OverMemory"
_MEMORY: Final = 256 << 20
_TIME_S: Final = 10.0
_START_S: Final = 60.0
"""Maximum seconds until the processes of previews are ready; their imports take 2 s of CPU time."""
_PARALLEL: Final = 2
_WAITING: Final = 32
_LARGEST_EVENT: Final = 16 << 20


class Previews:
    """Reads previews in their own processes. ``connection`` are the arguments of ``lakelog.connect``.

    A preview may use ``memory_bytes`` more than its process has at its start, and ``time_s`` seconds.
    """

    def __init__(self, connection: dict[str, Any], memory_bytes: int = _MEMORY, time_s: float = _TIME_S) -> None:
        self._readers = _Readers({"connect": connection, "memory_bytes": memory_bytes, "time_s": time_s})
        self._memory_bytes, self._time_s = memory_bytes, time_s
        # A preview has one thread from end to end: each await would wait for a round of a busy event loop.
        self._threads = ThreadPoolExecutor(_PARALLEL, "preview")
        self._asked: set[socket.socket] = set()
        self._waiting = 0
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def grid(self, request: Request, who: str = "") -> Grid:
        """The grid of a user's request. Raises the errors of reading, and Unavailable beyond the limits or if too many
        wait. A user has one at a time, so that a slow preview of one user does not block the others.
        """
        if self._waiting >= _WAITING:
            raise Unavailable("too many previews are being read: reload the page in a few seconds")
        self._waiting += 1
        turn = self._turns.setdefault(who, asyncio.Lock())
        try:
            async with turn:
                answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, request)
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

    async def tail(self, table: str) -> AsyncGenerator[bytes]:
        """The events of a tail (``tail.py``), read in a process of its own with the memory limit of a preview."""
        try:
            ours = await asyncio.get_running_loop().run_in_executor(None, self._open, TailRequest(table))
        except LakelogError as why:
            yield event("trouble", {"why": str(why)})
            return
        stream, connection = await asyncio.open_connection(sock=ours, limit=_LARGEST_EVENT)
        try:
            one = b""
            while not one.startswith(b"event: trouble"):
                one = await stream.readuntil(b"\n\n")
                yield one
        except (asyncio.IncompleteReadError, ConnectionError):
            ended = f"the process of this tail has ended, or needed more than {self._memory_bytes >> 20} MiB of memory"
            yield event("trouble", {"why": f"{ended}: reload the page"})
        finally:
            connection.close()

    async def export(self, request: ExportRequest) -> AsyncGenerator[bytes]:
        """The chunks of an export, read in a process of its own with the memory limit of a preview.

        Raises the errors of reading, and Unavailable if that process ends before the last row.
        """
        ours = await asyncio.get_running_loop().run_in_executor(None, self._open, request)
        stream, connection = await asyncio.open_connection(sock=ours)
        try:
            while True:
                mark, length = HEAD.unpack(await stream.readexactly(HEAD.size))
                chunk = await stream.readexactly(length)
                if mark == COMPLETE:
                    return
                if mark == FAILED:
                    failure = orjson.loads(chunk)
                    kind: type[LakelogError] = getattr(errors, failure["error"], Unavailable)
                    raise kind(failure["why"])
                yield chunk
        except (asyncio.IncompleteReadError, ConnectionError) as why:
            raise Unavailable("the process of this export has ended before the last row: try again") from why
        finally:
            connection.close()

    def warm(self) -> None:
        """Starts the processes of the previews unless they run; returns at once. A preview reports a failed start."""
        with contextlib.suppress(OSError, Unavailable):
            self._readers.start()

    def close(self) -> None:
        """Ends those processes, and the previews that are being read."""
        self._readers.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for asked in list(self._asked):
            with contextlib.suppress(OSError):
                asked.shutdown(socket.SHUT_RDWR)

    def _open(self, request: Request | StreamRequest) -> socket.socket:
        """A socket with the answer to a request. Raises Unavailable."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._readers.hand_over(theirs)
            ours.sendall(orjson.dumps(to_json(request)) + b"\n")
        except BaseException:
            ours.close()
            raise
        return ours

    def _ask(self, request: Request) -> dict[str, Any]:
        with self._open(request) as ours:
            ours.settimeout(self._time_s + 1)
            self._asked.add(ours)
            try:
                with ours.makefile("rb") as answer:
                    body = answer.read()
            except TimeoutError:
                body = b""
                self._readers.end()  # no child has taken it; the next preview starts other ones
            except OSError:
                body = b""  # the system has killed it
            finally:
                self._asked.discard(ours)
        if not body:
            raise Unavailable(
                f"this preview was not read within {self._time_s:g} s: its files are very large, or the storage is "
                f"slow. Query single columns in the Terminal, or lakelog head {request.table}"
            )
        return orjson.loads(body)  # type: ignore[no-any-return]


class _Readers:
    """The parent of the processes that read, with the socket over which it gets those of the requests. Thread-safe."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._is_ready = self._is_closed = False
        self._handing_over = threading.Lock()

    def hand_over(self, client: socket.socket) -> None:
        """Gives the socket of a request to a process that is ready. Raises Unavailable."""
        with self._handing_over:
            for is_last in (False, True):
                try:
                    control = self.start()
                    if not self._is_ready:
                        self._is_ready = bool(control.recv(1))
                    socket.send_fds(control, [b"\n"], [client.fileno()])
                    return
                except OSError as failed:
                    self.end()
                    if is_last:
                        why = f"the process that reads previews has ended, or did not start in {_START_S:g} s: {failed}"
                        raise Unavailable(f"{why}; reload the page") from failed

    def start(self) -> socket.socket:
        """Starts the parent unless it runs; returns at once."""
        with self._lock:
            if self._process is not None and self._process.poll() is None and self._control is not None:
                return self._control
            if self._is_closed:
                raise Unavailable("the dashboard is being stopped")
            self._end()
            self._control, theirs = socket.socketpair()
            self._control.settimeout(_START_S)
            with theirs:
                self._process = start_module(_MODULE, theirs.fileno(), subprocess.DEVNULL)
            self._control.sendall(orjson.dumps(self._config) + b"\n")
            return self._control

    def end(self) -> None:
        """Ends the parent and the processes that are ready; the next request starts others."""
        with self._lock:
            self._end()

    def close(self) -> None:
        """Ends them for good."""
        with self._lock:
            self._is_closed = True
            self._end()

    def _end(self) -> None:
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for the start
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None
        self._is_ready = False
