"""What a running dashboard holds; every route finds it by its request."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from fastapi import Request

from lakelog.lake import Lake
from lakelog.service.dashboard.security.identity import Access
from lakelog.service.dashboard.security.sessions import Sessions
from lakelog.service.dashboard.security.throttle import Throttle
from lakelog.service.dashboard.settings import DashboardSettings
from lakelog.service.dashboard.terminals import Terminals
from lakelog.service.dashboard.watcher import Watcher

_LOG: Final = logging.getLogger("lakelog.dashboard")


@dataclass
class Dashboard:
    """The lake that is shown, the watcher of its tables, and who is logged in."""

    settings: DashboardSettings
    lake: Lake
    watcher: Watcher
    access: Access
    terminals: Terminals
    sessions: Sessions = field(default_factory=Sessions)
    throttle: Throttle = field(default_factory=Throttle)

    def end_session(self, key: str) -> bool:
        """Ends a session and its terminal; whether there was one."""
        self.terminals.close_session(key)
        return self.sessions.end(key)

    def note(self, what: str, user: str, address: str = "") -> None:
        """Writes into the log who did what; no secret is ever part of it."""
        _LOG.info("%s by %s%s", what, user, f" from {address}" if address else "")


def dashboard_of(request: Request) -> Dashboard:
    """The dashboard that answers this request."""
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard
