"""Refuses forged requests of browsers: by DNS rebinding, or from pages of other sites."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from lakelog.service.dashboard.security.refusal import refuse

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
