"""The user of a request."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.service.access.sessions import Session
from lakelog.sql.runtime.statement import Privilege


@dataclass(frozen=True)
class Identity:
    """The user of a request. ``session`` is None for a program with a token, or of this machine's user."""

    user: str
    role: Privilege
    session: Session | None
