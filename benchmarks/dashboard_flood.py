"""The attackers of ``dashboard_load``: requests, live tails, logins, previews of a bomb, a hostile statement.

A process of its own, so that its work does not delay the one that measures pages. It reads a JSON object from its
standard input (``address``, ``sessions``: cookies of readers, ``admin``: a cookie and its ``csrf``, ``seconds``,
``requests``, ``tails``), says "ready" when the tails are open, and prints what came of it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

_LOGINS, _BOMBS = 8, 2
_PAUSE_S = 0.5
"""Before one who was refused, or hung up on, comes again."""
_HOSTILE = "show tables /* k" + " " * 199_900 + "x */ in d"


async def _flood(asked: dict[str, Any]) -> dict[str, Any]:
    flood = _Flood(asked)
    tails = await asyncio.gather(*(flood.tail(number) for number in range(asked["tails"])))
    print("ready", flush=True)
    await flood.run()
    for _, writer in tails:
        writer.close()
    flood.seconds.sort()
    count = len(flood.seconds)
    return {
        "answers": {what: dict(statuses) for what, statuses in flood.statuses.items()},
        "requests_per_s": round(count / asked["seconds"], 1),
        "request_s": {name: round(flood.seconds[int(count * part)], 3) for name, part in (("p50", 0.5), ("p99", 0.99))}
        | {"max": round(flood.seconds[-1], 3)},
    }


class _Flood:
    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked, self._host = asked, urlsplit(asked["address"])
        self._until = 0.0
        self.statuses: dict[str, Counter[str]] = {}
        self.seconds: list[float] = []

    async def tail(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Opens one of the live tails; it is not read any further."""
        reader, writer = await self._connect()
        writer.write(self._head("GET", "/api/v1/tables/d.log/tail", self._cookie(number)))
        assert b" 200 " in await reader.readline()
        return reader, writer

    async def run(self) -> None:
        """All but the tails, for the seconds that were asked for."""
        self._until = time.monotonic() + self._asked["seconds"]
        await asyncio.gather(self.statement(), self.at_once(), *self.others())

    async def at_once(self) -> None:
        """As many connections as requests were asked for, each with the next request as soon as one is answered."""
        await asyncio.gather(*(self._requests(number) for number in range(self._asked["requests"])))

    def others(self) -> list[Awaitable[None]]:
        """The logins and the previews."""
        form = urlencode({"user": "ada", "password": "a guess"}).encode()
        kind = "content-type: application/x-www-form-urlencoded"
        logins = [self._again("logins", lambda: self._ask("POST", "/login", "", form, kind)) for _ in range(_LOGINS)]
        bomb = "/api/v1/tables/d.bomb/rows"
        return logins + [self._again("bombs", lambda: self._ask("GET", bomb, self._cookie(0))) for _ in range(_BOMBS)]

    async def statement(self) -> None:
        """One text of 200 kB whose words took a pattern of quadratic cost hours."""
        admin = self._asked["admin"]
        body = json.dumps({"text": _HOSTILE, "catalog": None, "database": None}).encode()
        kind = f"content-type: application/json\r\nx-csrf-token: {admin['csrf']}"
        await self._count("statements", self._ask("POST", "/api/v1/terminal/texts", admin["cookie"], body, kind))

    async def _requests(self, number: int) -> None:
        head = self._head("GET", "/api/v1/tables", self._cookie(number))
        while time.monotonic() < self._until:
            status = "closed"
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await self._connect()
                status = "200"
                while status == "200" and time.monotonic() < self._until:
                    began = time.monotonic()
                    writer.write(head)
                    status = "closed"
                    status = await _answer(reader)
                    self._note("requests", status)
                    self.seconds.append(time.monotonic() - began)
            if status == "closed":
                self._note("requests", status)
            await asyncio.sleep(_PAUSE_S)

    async def _again(self, what: str, ask: Callable[[], Awaitable[str]]) -> None:
        while time.monotonic() < self._until:
            await self._count(what, ask())

    async def _ask(self, method: str, path: str, cookie: str, body: bytes = b"", kind: str = "accept: */*") -> str:
        reader, writer = await self._connect()
        writer.write(self._head(method, path, cookie, body, kind) + body)
        try:
            return await _answer(reader)
        finally:
            writer.close()

    async def _count(self, what: str, answer: Awaitable[str]) -> None:
        status = "closed"
        with suppress(OSError, asyncio.IncompleteReadError):
            status = await answer
        self._note(what, status)

    def _note(self, what: str, status: str) -> None:
        self.statuses.setdefault(what, Counter())[status] += 1

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self._host.hostname is not None
        return await asyncio.open_connection(self._host.hostname, self._host.port)

    def _cookie(self, number: int) -> str:
        sessions = self._asked["sessions"]
        return str(sessions[number % len(sessions)])

    def _head(self, method: str, path: str, cookie: str, body: bytes = b"", kind: str = "accept: */*") -> bytes:
        origin = f"\r\norigin: {self._asked['address']}" if method == "POST" else ""
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host.netloc}\r\ncookie: {cookie}{origin}\r\n{kind}"
        return f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode()


async def _answer(reader: asyncio.StreamReader) -> str:
    """The status of an answer, whose body is read to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length"))
    await reader.readexactly(length)
    return head.split()[1]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_flood(json.loads(sys.stdin.readline())))), flush=True)
