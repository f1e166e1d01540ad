"""Refusal of a request, with its reason as JSON."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send


async def refuse(scope: Scope, receive: Receive, send: Send, status: int, why: str, **headers: str) -> None:
    """Answers with a status and one sentence; header names are written with ``_`` for ``-``."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    await JSONResponse({"error": why}, status, more)(scope, receive, send)
