"""Identifies the user of each request, and refuses requests without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from fastapi import HTTPException, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakelog.service.access.gate import LOCAL, Gate, Refused
from lakelog.service.access.identity import Identity
from lakelog.service.access.local_user import is_same_user
from lakelog.service.access.users import TOKEN_USER, User, is_token
from lakelog.service.dashboard.security.cookies import Cookies
from lakelog.service.dashboard.security.refusal import refuse
from lakelog.sql.runtime.statement import Privilege


def client_address(scope: Scope, behind_proxy: bool) -> str:
    """The client address of a request; behind a proxy, the address that the proxy has seen.

    That is the last entry of ``X-Forwarded-For``, which the proxy has written; earlier ones come from the client. Used
    for limits and the audit log, never for authentication.
    """
    client = scope.get("client")
    direct = client[0] if client else ""
    if not behind_proxy:
        return direct
    forwarded = ",".join(Headers(scope=scope).getlist("x-forwarded-for"))
    return forwarded.rpartition(",")[2].strip()[:64] or direct


_OPEN: Final = ("/login", "/healthz")
_OPEN_UNDER: Final = "/static/"
_SAFE: Final = ("GET", "HEAD")


class Identify:
    """ASGI middleware: puts an ``Identity`` into ``scope["state"]``, or answers 401, 403, 429, or with the login page.

    A browser has a session in a cookie, and sends ``X-CSRF-Token`` with each change. A program sends
    ``Authorization: Bearer <token>``. Without users and token, the connection identifies the user who runs the server.
    A session of that user is valid on such connections only, because other ports of this host receive the cookie too.
    """

    def __init__(self, app: ASGIApp, gate: Gate, cookies: Cookies) -> None:
        self._app, self._gate, self._cookies = app, gate, cookies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on with an identity."""
        path = scope["path"] if scope["type"] == "http" else ""
        state = scope.setdefault("state", {})
        if scope["type"] != "http" or path.startswith(_OPEN_UNDER):
            state["identity"] = None
            await self._app(scope, receive, send)
            return
        headers, address = Headers(scope=scope), client_address(scope, self._gate.access.behind_proxy)
        identity = self._identity(scope, headers, address)
        if path in _OPEN:
            state["identity"] = None if isinstance(identity, Refused) else identity
            await self._app(scope, receive, send)
            return
        if isinstance(identity, Refused):
            await refuse(scope, receive, send, identity.status, identity.why, retry_after="60")
            return
        if identity is None:
            await self._ask_to_log_in(scope, headers, receive, send)
            return
        if scope["method"] not in _SAFE and not _has_valid_csrf(headers, identity):
            why = "the X-CSRF-Token is missing or wrong: reload the page"
            await refuse(scope, receive, send, 403, why)
            return
        if identity.session is None and identity.user == LOCAL and _is_browser(headers):
            user = User(LOCAL, Privilege.ADMIN, "")
            secret, session = self._gate.begin(user, address, headers.get("user-agent", ""))
            self._gate.note("login", LOCAL, Privilege.ADMIN, address)
            identity = Identity(LOCAL, Privilege.ADMIN, session)
            send = _with_cookie(send, self._cookies.begin_session(secret))
        state["identity"] = identity
        await self._app(scope, receive, send)

    def _identity(self, scope: Scope, headers: Headers, address: str) -> Identity | Refused | None:
        gate = self._gate
        secret = self._cookies.read(headers.get("cookie", ""), self._cookies.session)
        session = gate.sessions.find(secret) if secret else None
        if session is not None and gate.check(session) and (session.user != LOCAL or _is_local(scope)):
            return Identity(session.user, session.role, session)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            is_right = gate.bearer(token.strip(), address)
            if isinstance(is_right, Refused):
                return is_right
            return Identity(TOKEN_USER, Privilege.ADMIN, None) if is_right else None
        if not gate.access.needs_login and _is_local(scope):
            return Identity(LOCAL, Privilege.ADMIN, None)
        return None

    async def _ask_to_log_in(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        if _is_browser(headers) and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            query = scope["query_string"].decode("latin-1")
            there = scope["path"] + (f"?{query}" if query else "")
            await RedirectResponse(f"/login?next={quote(there, safe='')}", 303)(scope, receive, send)
            return
        why = "log in, or send 'Authorization: Bearer <token>'"
        await refuse(scope, receive, send, 401, why, www_authenticate="Bearer")


def _is_local(scope: Scope) -> bool:
    client, server = scope.get("client"), scope.get("server")
    return bool(client and server and is_same_user(tuple(client), tuple(server)))


def _is_browser(headers: Headers) -> bool:
    return "sec-fetch-site" in headers or "text/html" in headers.get("accept", "")


def _has_valid_csrf(headers: Headers, identity: Identity) -> bool:
    if identity.session is not None:
        token = headers.get("x-csrf-token", "")
        return is_token(token, identity.session.csrf)
    return "origin" not in headers and "sec-fetch-site" not in headers


def _with_cookie(send: Send, cookie: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).append("set-cookie", cookie)
        await send(message)

    return sending


def identity_of(request: Request) -> Identity:
    """The user of a request. After ``Identify``, every route except the login has one."""
    identity: Identity | None = request.scope["state"]["identity"]
    if identity is None:
        raise HTTPException(401, "log in first")
    return identity


def needs(role: Privilege) -> Callable[[Request], Identity]:
    """A dependency that answers 403 unless the user has at least this role."""

    def check(request: Request) -> Identity:
        identity = identity_of(request)
        if identity.role < role:
            why = f"this needs the role '{role.word}'; {identity.user} has '{identity.role.word}'"
            raise HTTPException(403, why)
        return identity

    check.role = role  # type: ignore[attr-defined]  # a test asks every route for it
    return check
