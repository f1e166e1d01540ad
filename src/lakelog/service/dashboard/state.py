"""State of a running dashboard, which routes get from their request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastapi import Request

from lakelog.lake import Lake, Table
from lakelog.service.access.gate import Gate
from lakelog.service.access.identity import Identity
from lakelog.service.dashboard.actions.actions import Actions
from lakelog.service.dashboard.live.live_tail import SharedTails
from lakelog.service.dashboard.live.saved_queries import SavedQueries
from lakelog.service.dashboard.live.streams import Streams
from lakelog.service.dashboard.live.terminals import Terminals
from lakelog.service.dashboard.previews.previews import Previews
from lakelog.service.dashboard.security.cookies import Cookies
from lakelog.service.dashboard.settings import DashboardSettings
from lakelog.service.dashboard.watcher import Watcher
from lakelog.sql.syntax.lexer import quoted_name


@dataclass
class Dashboard:
    """The lake, the watcher of its tables, the logged-in users, and their open terminals and streams."""

    settings: DashboardSettings
    lake: Lake
    watcher: Watcher
    gate: Gate
    cookies: Cookies
    terminals: Terminals
    streams: Streams
    previews: Previews
    actions: Actions
    queries: SavedQueries
    tails: SharedTails = field(init=False)

    def __post_init__(self) -> None:
        self.tails = SharedTails(lambda table: self.previews.tail(_written(table)))


def _written(table: Table) -> str:
    """The name of a table as ``Lake.table`` takes it."""
    return ".".join(map(quoted_name, table.logical.location.identifier.parts))


def page_rights(request: Request) -> dict[str, Any]:
    """The data of a page's actions: the user's role, and the newest actions by kind, table and arguments."""
    identity: Identity = request.scope["state"]["identity"]
    newest = {action.text: action for action in reversed(dashboard_of(request).actions.list())}
    return {"role": identity.role.word, "actions": newest}


def dashboard_of(request: Request) -> Dashboard:
    """The dashboard that handles this request."""
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard
