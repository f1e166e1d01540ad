"""Materialized views: the graph of tables and views, with lag and state."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from lakelog.service.dashboard.render import Equivalents, render
from lakelog.service.dashboard.security.identity import needs
from lakelog.service.dashboard.state import dashboard_of
from lakelog.service.dashboard.view_graph import ViewGraph, view_graph
from lakelog.sql.runtime.statement import Privilege

pages = APIRouter(include_in_schema=False, dependencies=[Depends(needs(Privilege.READ))])
api = APIRouter(tags=["views"], dependencies=[Depends(needs(Privilege.READ))])


@pages.get("/views")
def views_page(request: Request) -> HTMLResponse:
    """The page; refreshed every few seconds."""
    dashboard = dashboard_of(request)
    same = Equivalents("/api/v1/views", ("lakelog", "view", "list", "--warehouse", dashboard.settings.warehouse))
    return render(request, "views.html", "Views", {"all": view_graph(dashboard.watcher.all()[0])}, same)


@api.get("/views")
def list_views(request: Request) -> ViewGraph:
    """The materialized views of all catalogs with their position in each source, and the graph of both."""
    return view_graph(dashboard_of(request).watcher.all()[0])
