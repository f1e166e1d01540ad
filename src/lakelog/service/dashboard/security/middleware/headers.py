"""Headers of requests and answers: forged requests are refused, and all answers are safe in a browser."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakelog.service.dashboard.security.refusal import refuse

_HEADERS: Final = {
    # All scripts, styles, fonts and pictures come from this server; none is inline.
    "content-security-policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with "no-referrer" a browser would call a form's origin "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
}
_A_YEAR: Final = "max-age=31536000"


class SafeHeaders:
    """ASGI middleware: sets the security headers of every answer; caches may keep static files only."""

    def __init__(self, app: ASGIApp, over_tls: bool) -> None:
        self._app = app
        self._headers = dict(_HEADERS)
        if over_tls:
            self._headers["strict-transport-security"] = _A_YEAR

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, and adds headers to the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_static = scope["path"].startswith("/static/")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                headers.setdefault("cache-control", "public, max-age=3600" if is_static else "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


_SAFE_SITES = ("same-origin", "none")


class Origins:
    """ASGI middleware: ``Host`` must be a name of this server, and ``Origin`` the same host.

    The first check stops DNS rebinding (a foreign page whose name now resolves to this machine). The second and
    ``Sec-Fetch-Site`` stop cross-site requests, even with a valid cookie.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str], scheme: str) -> None:
        self._app, self._scheme = app, scheme
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers it with 421 or 403."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host = headers.get("host", "").lower()
            if host not in self._hosts:
                why = f"this server is not '{host}': open it by one of its own names, or name it with --allow-host"
                await refuse(scope, receive, send, 421, why)
                return
            origin = headers.get("origin")
            if origin is not None and origin.lower() != f"{self._scheme}://{host}":
                await refuse(
                    scope, receive, send, 403, "cross-origin request refused: only pages of this server may send it"
                )
                return
            site = headers.get("sec-fetch-site")
            if site is not None and site not in _SAFE_SITES and not _is_navigation(scope, headers):
                await refuse(
                    scope, receive, send, 403, "cross-site request refused: only pages of this server may send it"
                )
                return
        await self._app(scope, receive, send)


def _is_navigation(scope: Scope, headers: Headers) -> bool:
    """True for a followed link to a page: harmless, because GET changes nothing."""
    return scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
