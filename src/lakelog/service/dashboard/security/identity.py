"""Finds out who asks, and refuses whom nobody knows: nothing behind this needs to think of it."""

from __future__ import annotations

from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakelog.service.dashboard.security.local_user import is_same_user
from lakelog.service.dashboard.security.refusal import refuse
from lakelog.service.dashboard.security.sessions import Session, Sessions
from lakelog.service.dashboard.security.users import TOKEN_USER, Users, is_token
from lakelog.sql.right import Right

COOKIE: Final = "lakelog_session"
_OPEN: Final = ("/login", "/healthz")
_OPEN_UNDER: Final = "/static/"
_SAFE: Final = ("GET", "HEAD")
_LOCAL: Final = "local"


@dataclass(frozen=True)
class Identity:
    """Who asks. ``session`` is None for a program with a token, or of this machine's user."""

    user: str
    role: Right
    session: Session | None


@dataclass(frozen=True)
class Access:
    """How one may come in: a users file, a token, or, without either, being the user that runs the server."""

    users: Users | None = None
    token: str | None = None
    over_tls: bool = False

    @property
    def needs_login(self) -> bool:
        """Whether the user of this machine has to log in, too."""
        return self.users is not None or self.token is not None


class Identify:
    """ASGI middleware: puts an ``Identity`` into ``scope["state"]``, or answers 401, 403, or with the login page.

    A browser has a session in a cookie and sends ``X-CSRF-Token`` with what changes something; a program has
    ``Authorization: Bearer <token>``. Without users and token, whoever runs the server is known by the connection.
    """

    def __init__(self, app: ASGIApp, access: Access, sessions: Sessions) -> None:
        self._app, self._access, self._sessions = app, access, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets the request through as somebody's."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), scope["path"]
        session = self._session(headers)
        identity = self._identity(scope, headers, session)
        state = scope.setdefault("state", {})
        if path in _OPEN or path.startswith(_OPEN_UNDER):
            state["identity"] = identity
            await self._app(scope, receive, send)
            return
        if identity is None:
            await self._ask_to_log_in(scope, headers, receive, send)
            return
        if scope["method"] not in _SAFE and not _is_meant(headers, identity):
            why = "the X-CSRF-Token of this session is missing: load the page again"
            await refuse(scope, receive, send, 403, why)
            return
        if identity.session is None and identity.user == _LOCAL and _is_browser(headers):
            secret, session = self._sessions.begin(_LOCAL, Right.ADMIN)
            identity = Identity(_LOCAL, Right.ADMIN, session)
            send = _with_cookie(send, session_cookie(secret, self._access.over_tls))
        state["identity"] = identity
        await self._app(scope, receive, send)

    def _session(self, headers: Headers) -> Session | None:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return None
        return None if cookie is None else self._sessions.find(cookie.value)

    def _identity(self, scope: Scope, headers: Headers, session: Session | None) -> Identity | None:
        if session is not None:
            role = self._role_now(session)
            if role is not None:
                return Identity(session.user, role, session)
            self._sessions.end(session.key)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return Identity(TOKEN_USER, Right.ADMIN, None) if is_token(given.strip(), self._access.token) else None
        client, server = scope.get("client"), scope.get("server")
        if not self._access.needs_login and client and server and is_same_user(tuple(client), tuple(server)):
            return Identity(_LOCAL, Right.ADMIN, None)
        return None

    def _role_now(self, session: Session) -> Right | None:
        """The role as the users file has it now: a user who was removed is out at once."""
        if self._access.users is None or session.user == TOKEN_USER:
            return session.role
        return self._access.users.role_of(session.user)

    async def _ask_to_log_in(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        if _is_browser(headers) and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            query = scope["query_string"].decode("latin-1")
            there = scope["path"] + (f"?{query}" if query else "")
            await RedirectResponse(f"/login?next={quote(there, safe='')}", 303)(scope, receive, send)
            return
        why = "log in, or send 'Authorization: Bearer <token>'"
        await refuse(scope, receive, send, 401, why, www_authenticate="Bearer")


def session_cookie(secret: str, over_tls: bool) -> str:
    """The ``Set-Cookie`` of a session: not for scripts, not for requests from other sites, gone with the browser."""
    return f"{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if over_tls else "")


def no_cookie() -> str:
    """The ``Set-Cookie`` that takes it away."""
    return f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"


def _is_browser(headers: Headers) -> bool:
    return "sec-fetch-site" in headers or "text/html" in headers.get("accept", "")


def _is_meant(headers: Headers, identity: Identity) -> bool:
    if identity.session is not None:
        given = headers.get("x-csrf-token", "")
        return is_token(given, identity.session.csrf)
    return "origin" not in headers and "sec-fetch-site" not in headers


def _with_cookie(send: Send, cookie: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).append("set-cookie", cookie)
        await send(message)

    return sending
