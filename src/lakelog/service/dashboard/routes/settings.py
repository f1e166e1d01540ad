"""Settings: the configuration of this dashboard, and the logged-in users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from lakelog.service.access.identity import Identity
from lakelog.service.dashboard.render import Equivalents, render
from lakelog.service.dashboard.security.identity import needs
from lakelog.service.dashboard.state import dashboard_of
from lakelog.sql.runtime.statement import Privilege

pages = APIRouter(include_in_schema=False)
api = APIRouter(tags=["settings"])


@dataclass(frozen=True)
class SessionLine:
    """A logged-in user; ``key`` names the session and grants no access."""

    key: str
    user: str
    role: str
    since_ms: int
    is_own: bool
    seen_ms: int = 0
    address: str = ""
    agent: str = ""


@dataclass(frozen=True)
class SettingsView:
    """The configuration of the dashboard, without secrets. ``sessions`` are for admins."""

    version: str
    address: str
    login: str
    catalogs: Sequence[str]
    allow_local_files: bool
    sessions: Sequence[SessionLine]


@pages.get("/settings")
def settings_page(request: Request, identity: Annotated[Identity, Depends(needs(Privilege.READ))]) -> HTMLResponse:
    """The page."""
    view = _settings(request, identity)
    return render(request, "settings.html", "Settings", view, Equivalents("/api/v1/settings", ("lakelog", "doctor")))


@api.get("/settings")
def get_settings(request: Request, identity: Annotated[Identity, Depends(needs(Privilege.READ))]) -> SettingsView:
    """The configuration of this dashboard and, for admins, the logged-in users."""
    return _settings(request, identity)


def _settings(request: Request, identity: Identity) -> SettingsView:
    dashboard = dashboard_of(request)
    settings, access = dashboard.settings, dashboard.gate.access
    ways = [name for name, way in (("users file", access.users), ("token", access.token)) if way is not None]
    session_key = identity.session.key if identity.session else ""
    sessions = dashboard.gate.sessions.list() if identity.role >= Privilege.ADMIN else []
    return SettingsView(
        version("lakelog"),
        f"{settings.scheme}://{request.headers.get('host', settings.host)}",
        ", ".join(ways) or "none, this user only",
        dashboard.lake.list_catalogs(),
        settings.allow_local_files,
        [
            SessionLine(s.key, s.user, s.role.word, s.since_ms, s.key == session_key, s.seen_ms, s.address, s.agent)
            for s in sessions
        ],
    )
