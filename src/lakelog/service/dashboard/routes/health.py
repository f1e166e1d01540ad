"""Liveness of the server, for load balancers; independent of the tables."""

from __future__ import annotations

from fastapi import APIRouter

pages = APIRouter(include_in_schema=False)


@pages.get("/healthz")
def healthz() -> dict[str, str]:
    """Always the same answer."""
    return {"status": "ok"}
