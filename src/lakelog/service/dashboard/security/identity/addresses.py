"""The address of a client."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope


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
