"""Overview: all tables, how fresh, how large, what they need."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from lakelog.service.dashboard.pages import Same, draw
from lakelog.service.dashboard.security.rights import needs
from lakelog.service.dashboard.state import dashboard_of
from lakelog.service.dashboard.views.overview import Overview, overview
from lakelog.sql.right import Right

pages = APIRouter(include_in_schema=False, dependencies=[Depends(needs(Right.READ))])
api = APIRouter(tags=["tables"], dependencies=[Depends(needs(Right.READ))])

Sort = Literal["score", "name", "size", "files", "lag", "newest"]
Search = Annotated[str, Query(max_length=200)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]
Limit = Annotated[int, Query(ge=1, le=1_000)]


@pages.get("/")
def overview_page(request: Request, search: Search = "", sort: Sort = "score", offset: Offset = 0) -> HTMLResponse:
    """The page; the list is drawn again every few seconds."""
    dashboard = dashboard_of(request)
    view = overview(dashboard.watcher, search, sort, offset)
    more = {"search": search, "sort": sort, "offset": offset}
    same = Same("/api/v1/tables", ("lakelog", "health", "--warehouse", dashboard.settings.warehouse))
    return draw(request, "overview.html", "Overview", {"all": view, **more}, same)


@api.get("/tables")
def list_tables(
    request: Request, search: Search = "", sort: Sort = "score", offset: Offset = 0, limit: Limit = 100
) -> Overview:
    """The tables of all catalogs with their newest figures."""
    return overview(dashboard_of(request).watcher, search, sort, offset, limit)
