"""Limits of requests: size and duration of the body, and the number of parallel requests."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakelog.service.access.identity import Identity
from lakelog.service.dashboard.security.middleware.request_slots import RequestSlots
from lakelog.service.dashboard.security.refusal import refuse

_BODY_BYTES: Final = 1 << 18
_LOGIN_BYTES: Final = 1 << 14
"""Maximum body of a request without a login: bodies are in memory while their request waits."""
_BODY_S: Final = 10.0
_BODIES_BYTES: Final = 1 << 26
"""Maximum size of the bodies of all running and waiting requests."""
_PARALLEL: Final = 64
_PARALLEL_EACH: Final = 24
_WAITING: Final = 2_000


class Limits:
    """ASGI middleware: 413 for a large body, 408 for a slow one, 503 if too many requests wait.

    A body is read before its request takes a place, so slow clients do not block others. Clients (a session, or an
    address without a login) get the places in turn. Streaming answers (a live tail, a terminal) free their place when
    they have started.
    """

    def __init__(
        self, app: ASGIApp, body_bytes: int = _BODY_BYTES, body_s: float = _BODY_S, at_once: int = _PARALLEL
    ) -> None:
        self._app, self._body_bytes, self._body_s = app, body_bytes, body_s
        self._slots = RequestSlots(at_once, min(at_once, _PARALLEL_EACH), _WAITING)
        self._bodies = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers once the body is complete and a place is free."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identity: Identity | None = scope.get("state", {}).get("identity")
        most = self._body_bytes if identity is not None else min(self._body_bytes, _LOGIN_BYTES)
        too_large = f"the request is too large: the limit is {most:,} bytes"
        headers = Headers(scope=scope)
        said = headers.get("content-length", "0")
        if not said.isdigit() or int(said) > most:
            await refuse(scope, receive, send, 413, too_large, connection="close")
            return
        body = b""
        if said != "0" or "transfer-encoding" in headers:
            try:
                body = await asyncio.wait_for(self._read(receive, most), self._body_s)
            except TimeoutError:
                why = f"the body of a request must arrive within {self._body_s:g} s"
                await refuse(scope, receive, send, 408, why, connection="close")
                return
        if len(body) > most:
            await refuse(scope, receive, send, 413, too_large, connection="close")
            return
        self._bodies += len(body)
        who = _who(scope, identity)
        try:
            if self._bodies > _BODIES_BYTES or not await self._slots.acquire(who):
                await refuse(scope, receive, send, 503, "too many parallel requests: retry in 2 s", retry_after="2")
                return
            await self._answer(who, scope, _replayed(body, receive), send)
        finally:
            self._bodies -= len(body)

    async def _read(self, receive: Receive, most: int) -> bytes:
        """The body, or slightly more of it than is allowed."""
        parts, size = [], 0
        while size <= most:
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if message["type"] != "http.request" or not message.get("more_body", False):
                break
        return b"".join(parts)

    async def _answer(self, who: str, scope: Scope, receive: Receive, send: Send) -> None:
        holds = True

        async def watched(message: Message) -> None:
            nonlocal holds
            await send(message)
            if holds and message["type"] == "http.response.body" and message.get("more_body"):
                holds = False
                self._slots.release(who)

        try:
            await self._app(scope, receive, watched)
        finally:
            if holds:
                self._slots.release(who)


def _who(scope: Scope, identity: Identity | None) -> str:
    if identity is None:
        return f"address {(scope.get('client') or ('',))[0]}"
    return f"session {identity.session.key}" if identity.session else f"user {identity.user}"


def _replayed(body: bytes, receive: Receive) -> Receive:
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
