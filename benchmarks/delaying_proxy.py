"""A proxy before an HTTP server that delays each request, as a distant store does, and counts them by method."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections import Counter
from typing import Final, Self
from urllib.parse import urlsplit

_METHODS: Final = (b"GET", b"HEAD", b"PUT", b"POST", b"DELETE")
_SLOW_SHARE: Final = 0.02
_SLOW_FACTOR: Final = 4


class DelayingProxy:
    """Listens on a port of this machine while its block runs; ``endpoint`` is its URL.

    A request waits ``delay_ms`` before it reaches the server, give or take a tenth, and each fiftieth waits four times
    as long. ``counts`` are the requests by method; a GET with a query is a LIST.
    """

    def __init__(self, endpoint: str, delay_ms: float) -> None:
        target = urlsplit(endpoint)
        self._target, self._delay_s = (target.hostname, target.port), delay_ms / 1000
        self._dice = random.Random(7)
        self.counts: Counter[str] = Counter()
        self.endpoint = ""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        started = threading.Event()

        def run() -> None:
            async def start() -> None:
                server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
                self.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
                started.set()

            self._loop.create_task(start())
            self._loop.run_forever()

        threading.Thread(target=run, name="proxy", daemon=True).start()
        started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _connected(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            server, request = await asyncio.open_connection(*self._target)
            await asyncio.gather(self._requests(client, request), self._answers(server, answer))

    async def _requests(self, client: asyncio.StreamReader, request: asyncio.StreamWriter) -> None:
        while data := await client.read(1 << 16):
            if data.split(b" ", 1)[0] in _METHODS:  # the first part of a request
                line = data.split(b"\r\n", 1)[0]
                is_list = line.startswith(b"GET") and b"list-type" in line
                self.counts["LIST" if is_list else line.split(b" ", 1)[0].decode()] += 1
                is_slow = self._dice.random() < _SLOW_SHARE
                await asyncio.sleep(self._delay_s * (_SLOW_FACTOR if is_slow else 0.9 + 0.2 * self._dice.random()))
            request.write(data)
            await request.drain()
        request.close()

    async def _answers(self, server: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        while data := await server.read(1 << 16):
            answer.write(data)
            await answer.drain()
        answer.close()
