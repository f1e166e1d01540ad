"""What a running dashboard holds; every route finds it by its request."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from lakelog.lake import Lake
from lakelog.service.dashboard.previews.previews import Previews
from lakelog.service.dashboard.security.gate import Gate
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


def dashboard_of(request: Request) -> Dashboard:
    """The dashboard that answers this request."""
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard
