"""Catalogs: their databases and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from lakelog.errors import LakelogError
from lakelog.service.dashboard.render import Equivalents, render
from lakelog.service.dashboard.security.identity.rights import needs
from lakelog.service.dashboard.state import Dashboard, dashboard_of
from lakelog.sql.runtime.statement import Privilege

pages = APIRouter(include_in_schema=False, dependencies=[Depends(needs(Privilege.READ))])
api = APIRouter(tags=["catalogs"], dependencies=[Depends(needs(Privilege.READ))])


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


@api.get("/catalogs")
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
