"""The address of a client."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope


def client_address(scope: Scope, behind_proxy: bool) -> str:
    """The address that a request comes from; behind a proxy the one that the proxy has seen.

    That is the last entry of ``X-Forwarded-For``: the proxy has written it, those before it come from the client. Used
    for limits and the audit log, never for who somebody is.
    """
    client = scope.get("client")
    direct = client[0] if client else ""
    if not behind_proxy:
        return direct
    forwarded = ",".join(Headers(scope=scope).getlist("x-forwarded-for"))
    return forwarded.rpartition(",")[2].strip()[:64] or direct
