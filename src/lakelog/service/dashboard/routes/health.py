"""Whether the server lives; for load balancers, says nothing about tables."""

from __future__ import annotations

from fastapi import APIRouter

pages = APIRouter(include_in_schema=False)


@pages.get("/healthz")
def healthz() -> dict[str, str]:
    """Always the same."""
    return {"status": "ok"}
