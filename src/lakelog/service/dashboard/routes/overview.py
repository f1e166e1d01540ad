"""Overview: freshness, size and needs of all tables."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from lakelog.io.clock import now_ms
from lakelog.service.dashboard.render import Equivalents, render
from lakelog.service.dashboard.security.identity.rights import needs
from lakelog.service.dashboard.state import dashboard_of, page_rights
from lakelog.service.dashboard.time_series import Plot
from lakelog.service.dashboard.views.overview import Overview, overview
from lakelog.sql.runtime.statement import Privilege

pages = APIRouter(include_in_schema=False, dependencies=[Depends(needs(Privilege.READ))])
api = APIRouter(tags=["tables"], dependencies=[Depends(needs(Privilege.READ))])

Sort = Literal["score", "name", "size", "files", "lag", "newest"]
Search = Annotated[str, Query(max_length=200)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Hours = Annotated[float, Query(gt=0, le=1440)]
_HOUR_MS = 3_600_000


@pages.get("/")
def overview_page(request: Request, search: Search = "", sort: Sort = "score", offset: Offset = 0) -> HTMLResponse:
    """The page; the list is refreshed every few seconds."""
    dashboard = dashboard_of(request)
    dashboard.previews.warm()  # they need a second or two to start: the next page may be one
    view = overview(dashboard.watcher, search, sort, offset)
    more = {"search": search, "sort": sort, "offset": offset}
    same = Equivalents("/api/v1/tables", ("lakelog", "health", "--warehouse", dashboard.settings.warehouse))
    return render(request, "overview.html", "Overview", {"all": view, **more, **page_rights(request)}, same)


@api.get("/plots/{plot}")
def get_total_plot(request: Request, plot: str, hours: Hours = 1) -> Plot:
    """Statistics of all tables over the last hours, while this dashboard was running."""
    return dashboard_of(request).watcher.history.total_plot(plot, now_ms() - round(hours * _HOUR_MS))


@api.get("/tables")
def list_tables(
    request: Request, search: Search = "", sort: Sort = "score", offset: Offset = 0, limit: Limit = 100
) -> Overview:
    """The tables of all catalogs with their newest statistics."""
    return overview(dashboard_of(request).watcher, search, sort, offset, limit)
