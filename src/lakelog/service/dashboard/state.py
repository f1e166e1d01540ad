"""What a running dashboard holds; every route finds it by its request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastapi import Request

from lakelog.lake import Lake
from lakelog.service.dashboard.actions.actions import Action, Actions
from lakelog.service.dashboard.live_tail import SharedTails
from lakelog.service.dashboard.previews.previews import Previews
from lakelog.service.dashboard.security.identity.identity import Identity
from lakelog.service.dashboard.security.login.gate import Gate
from lakelog.service.dashboard.settings import DashboardSettings
from lakelog.service.dashboard.streams import Streams
from lakelog.service.dashboard.terminals import Terminals
from lakelog.service.dashboard.watcher import Watcher


@dataclass
class Dashboard:
    """The lake that is shown, the watcher of its tables, who is logged in, and what they have open."""

    settings: DashboardSettings
    lake: Lake
    watcher: Watcher
    gate: Gate
    terminals: Terminals
    streams: Streams
    previews: Previews
    actions: Actions
    tails: SharedTails = field(default_factory=SharedTails)


def page_rights(request: Request) -> dict[str, Any]:
    """What a page needs to offer actions: the role of who asks, and the newest action of each kind of each table."""
    identity: Identity = request.scope["state"]["identity"]
    newest: dict[tuple[str, str, str], Action] = {}
    for action in reversed(dashboard_of(request).actions.list()):
        newest[action.table, action.kind, action.writer] = action
    return {"role": identity.role.word, "actions": newest}


def dashboard_of(request: Request) -> Dashboard:
    """The dashboard that answers this request."""
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard
