"""The privilege that a route needs, declared at the route."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import HTTPException, Request

from lakelog.service.dashboard.security.identity.identity import Identity
from lakelog.sql.runtime.statement import Privilege


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
