"""Security headers of all answers."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
