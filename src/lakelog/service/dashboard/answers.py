"""Shared answers: computed once for parallel requests and kept for half a second."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field
from typing import Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidRequest,
    LakelogError,
    NotFound,
    NotInstalled,
    Unavailable,
)
from lakelog.service.access.identity import Identity
from lakelog.service.dashboard.render import render

_CACHE_S: Final = 0.5
_CACHED_BYTES: Final = 1 << 20
_SHARED: Final = re.compile(
    r"/((log|optimizing|catalogs|tables/.+)?|api/v1/(logs|optimizing|catalogs|tables|plots)(/.+)?)(?<!/tail)"
)
"""Paths whose answers depend on the role only, except for a page's frame. Settings and terminals are not shared."""
_Key = tuple[str, str, bytes, str]
_LOG: Final = logging.getLogger("lakelog.dashboard")
_STATUS: Final = (
    (NotFound, 404), (InvalidRequest, 400), (AlreadyExists, 409), (CommitConflict, 409), (Unavailable, 503),
    (NotInstalled, 501),
)  # fmt: skip


@dataclass
class _Answer:
    """An answer that is being computed: ``whole`` gets its messages, or None if other requests must not share it."""

    whole: asyncio.Future[list[Message] | None]
    messages: list[Message] = field(default_factory=list)

    def add(self, message: Message) -> bool:
        """Adds a message; returns whether it was the last one."""
        kept = dict(message)
        if "headers" in kept:
            kept["headers"] = list(kept["headers"])  # the sender adds headers of one request
        self.messages.append(kept)
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_last and not self.whole.done():
            self.whole.set_result(self.messages)
        return is_last

    @property
    def is_cacheable(self) -> bool:
        """True if the answer is small and may be kept for half a second."""
        return (
            self.messages[0]["status"] == 200
            and sum(len(one.get("body", b"")) for one in self.messages) < _CACHED_BYTES
        )


class Answers:
    """ASGI middleware: parallel requests of users with the same role share one answer.

    A change by any user (any method but GET) discards the kept answers and those that are being computed, so that the
    user sees it at once. The frame of a page names its user, so only requests of one session share a whole page.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._answers: dict[_Key, _Answer] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends a kept answer, waits for one that is being computed, or computes one that others may share."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            try:
                await self._app(scope, receive, send)
            finally:
                self._answers.clear()
            return
        key = _key(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        answer = self._answers.get(key)
        if answer is None:
            await self._begin(key, scope, receive, send)
            return
        messages = await asyncio.shield(answer.whole)
        if messages is None:
            await self._app(scope, receive, send)
            return
        for message in messages:
            await send({**message, "headers": list(message["headers"])} if "headers" in message else message)

    async def _begin(self, key: _Key, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        answer = self._answers[key] = _Answer(loop.create_future())

        async def noted(message: Message) -> None:
            if answer.add(message):
                if answer.is_cacheable:
                    loop.call_later(_CACHE_S, self._drop, key, answer)
                else:
                    self._drop(key, answer)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            if not answer.whole.done():
                answer.whole.set_result(None)
                self._drop(key, answer)

    def _drop(self, key: _Key, answer: _Answer) -> None:
        if self._answers.get(key) is answer:
            del self._answers[key]


def _key(scope: Scope) -> _Key | None:
    """Cache key of a shared answer; None for a request whose answer is not shared."""
    identity: Identity | None = scope["state"]["identity"]
    path = scope["path"]
    if identity is None or scope["method"] != "GET" or not _SHARED.fullmatch(path):
        return None
    headers = Headers(scope=scope)
    is_part = "hx-request" in headers
    frame = "" if is_part or path.startswith("/api/") else identity.session.key if identity.session else identity.user
    return (
        f"{identity.role.word} {'part' if is_part else frame}",
        path,
        scope["query_string"],
        headers.get("accept", ""),
    )


def answer_lakelog_error(request: Request, failure: Exception) -> Response:
    """Handles an error of lakelog; the answer has its text."""
    assert isinstance(failure, LakelogError)
    status = next((code for kind, code in _STATUS if isinstance(failure, kind)), 500)
    return error_response(request, status, str(failure))


def answer_http_error(request: Request, failure: Exception) -> Response:
    """Handles an unknown route or method, and a request that is not allowed."""
    assert isinstance(failure, HTTPException)
    return error_response(request, failure.status_code, str(failure.detail))


def answer_wrong_request(request: Request, failure: Exception) -> Response:
    """Handles an invalid parameter or body."""
    assert isinstance(failure, RequestValidationError)
    wrong = (f"'{'.'.join(map(str, one['loc'][1:]))}': {one['msg'].lower()}" for one in failure.errors())
    return error_response(request, 400, f"invalid request: {'; '.join(wrong)}")


def answer_other_error(request: Request, failure: Exception) -> Response:
    """Handles an unexpected exception: it is logged, and the answer has no details."""
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=failure)
    return error_response(request, 500, "the dashboard failed; see its log")


def error_response(request: Request, status: int, why: str) -> Response:
    """One sentence, as a page for browsers and as JSON for programs."""
    is_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
    if is_page and "hx-request" not in request.headers:
        return render(request, "failure.html", f"{status}", {"status": status, "why": why}, status=status)
    return JSONResponse({"error": why}, status)
