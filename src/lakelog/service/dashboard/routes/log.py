"""Log: offsets and lag of the buckets of all logs, slow readers, and trimmable records."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from lakelog.service.dashboard.render import Equivalents, render
from lakelog.service.dashboard.security.identity.rights import needs
from lakelog.service.dashboard.state import dashboard_of
from lakelog.service.dashboard.views.log import LogOverview, log_overview
from lakelog.sql.runtime.statement import Privilege

pages = APIRouter(include_in_schema=False, dependencies=[Depends(needs(Privilege.READ))])
api = APIRouter(tags=["log"], dependencies=[Depends(needs(Privilege.READ))])

Search = Annotated[str, Query(max_length=200)]


@pages.get("/log")
def log_overview_page(request: Request, search: Search = "") -> HTMLResponse:
    """The logs of all tables; refreshed every two seconds."""
    dashboard = dashboard_of(request)
    view = {"logs": log_overview(dashboard.watcher, search), "search": search}
    return render(request, "logs.html", "Log", view, Equivalents("/api/v1/logs"))


@api.get("/logs")
def list_logs(request: Request, search: Search = "") -> LogOverview:
    """The logs of all tables with their newest statistics, longest lag first."""
    return log_overview(dashboard_of(request).watcher, search)
