"""Pages of all tables: overview, catalogs and logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from lakelog.errors import LakelogError
from lakelog.io.clock import now_ms
from lakelog.service.dashboard.render import Equivalents, render
from lakelog.service.dashboard.security.identity import needs
from lakelog.service.dashboard.state import Dashboard, dashboard_of, page_rights
from lakelog.service.dashboard.time_series import Plot
from lakelog.service.dashboard.views import Choice, LogOverview, Overview, log_overview, overview
from lakelog.sql.runtime.statement import Privilege

pages = APIRouter(include_in_schema=False, dependencies=[Depends(needs(Privilege.READ))])
api = APIRouter(dependencies=[Depends(needs(Privilege.READ))])

Sort = Literal["score", "name", "size", "files", "rows", "lag", "newest"]
Search = Annotated[str, Query(max_length=200)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Hours = Annotated[float, Query(gt=0, le=1440)]
_HEADS = (
    ("Table", "name", ""), ("Health", "score", ""), ("Log updated", "newest", ""), ("Files updated", "", ""),
    ("Lag", "lag", "number"), ("Rows", "rows", "number"), ("Files", "files", "number"), ("Size", "size", "number"),
    ("Action required", "", ""),
)  # fmt: skip
"""The heads of the list: their names, the order that a click on them gives, and their class."""
_HOUR_MS = 3_600_000


def _choice(
    search: Search = "", database: Search = "", sort: Sort = "score", reverse: Annotated[bool, Query()] = False
) -> Choice:
    return Choice(search, database, sort, reverse)


Chosen = Annotated[Choice, Depends(_choice)]


def _address(choice: Choice, **other: object) -> str:
    """The address of the overview with a choice, or with parts of another one."""
    parts = {"search": choice.search, "database": choice.database, "sort": choice.sort, "reverse": choice.is_reversed}
    return "/?" + urlencode({name: value for name, value in (parts | other).items() if value})


@pages.get("/")
def overview_page(request: Request, choice: Chosen, offset: Offset = 0) -> HTMLResponse:
    """The page; the list is refreshed every few seconds."""
    dashboard = dashboard_of(request)
    dashboard.previews.warm()  # they need a second or two to start: the next page may be one
    view = overview(dashboard.watcher, choice, offset)
    more = {"choice": choice, "offset": offset, "heads": _HEADS, "address": partial(_address, choice)}
    same = Equivalents("/api/v1/tables", ("lakelog", "health", "--warehouse", dashboard.settings.warehouse))
    return render(request, "overview.html", "Overview", {"all": view, **more, **page_rights(request)}, same)


@api.get("/plots/{plot}", tags=["tables"])
def get_total_plot(request: Request, plot: str, hours: Hours = 1) -> Plot:
    """Statistics of all tables over the last hours, while this dashboard was running."""
    return dashboard_of(request).watcher.history.total_plot(plot, now_ms() - round(hours * _HOUR_MS))


@api.get("/tables", tags=["tables"])
def list_tables(request: Request, choice: Chosen, offset: Offset = 0, limit: Limit = 100) -> Overview:
    """The tables of all catalogs with their newest statistics."""
    return overview(dashboard_of(request).watcher, choice, offset, limit)


@dataclass(frozen=True)
class Database:
    """A database and its tables by full name."""

    name: str
    tables: Sequence[str]


@dataclass(frozen=True)
class CatalogView:
    """A catalog by its SQL name; ``trouble`` is the error of its listing."""

    name: str
    databases: Sequence[Database]
    trouble: str = ""


@pages.get("/catalogs")
def catalogs_page(request: Request) -> HTMLResponse:
    """All catalogs with their databases and tables."""
    dashboard = dashboard_of(request)
    same = Equivalents("/api/v1/catalogs", ("lakelog", "tables", "--warehouse", dashboard.settings.warehouse))
    return render(request, "catalogs.html", "Catalogs", {"catalogs": _catalogs(dashboard)}, same)


@api.get("/catalogs", tags=["catalogs"])
def list_catalogs(request: Request) -> list[CatalogView]:
    """All catalogs with their databases and tables."""
    return _catalogs(dashboard_of(request))


def _catalogs(dashboard: Dashboard) -> list[CatalogView]:
    return [_catalog(dashboard, name) for name in dashboard.lake.list_catalogs()]


def _catalog(dashboard: Dashboard, name: str) -> CatalogView:
    lake = dashboard.lake
    try:
        databases = [Database(db, lake.list_tables(db, name)) for db in lake.list_databases(name)]
    except LakelogError as failure:
        return CatalogView(name, (), str(failure))
    return CatalogView(name, databases)


@pages.get("/log")
def log_overview_page(request: Request, search: Search = "") -> HTMLResponse:
    """The logs of all tables; refreshed every two seconds."""
    dashboard = dashboard_of(request)
    view = {"logs": log_overview(dashboard.watcher, search), "search": search}
    return render(request, "logs.html", "Log", view, Equivalents("/api/v1/logs"))


@api.get("/logs", tags=["log"])
def list_logs(request: Request, search: Search = "") -> LogOverview:
    """The logs of all tables with their newest statistics, longest lag first."""
    return log_overview(dashboard_of(request).watcher, search)
