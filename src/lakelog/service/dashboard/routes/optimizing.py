"""Optimizing: the needs of tables, blocked work with its reason, and past runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from lakelog.errors import LakelogError
from lakelog.service.dashboard.render import Equivalents, render
from lakelog.service.dashboard.security.identity import needs
from lakelog.service.dashboard.state import Dashboard, dashboard_of, page_rights
from lakelog.service.dashboard.views import TableFinding, findings_of
from lakelog.sql.runtime.statement import Privilege
from lakelog.table.health.actions import Action, Blocker
from lakelog.table.maintenance.run_history import Run

pages = APIRouter(include_in_schema=False, dependencies=[Depends(needs(Privilege.READ))])
api = APIRouter(tags=["optimizing"], dependencies=[Depends(needs(Privilege.READ))])
_RUNS = 50
_TABLES = 40
"""Number of tables whose newest runs the page shows: those with the newest snapshots."""


@dataclass(frozen=True)
class TableNeed:
    """One need of a table."""

    table: str
    need: Action


@dataclass(frozen=True)
class TableWait:
    """One blocked piece of work in a table."""

    table: str
    wait: Blocker


@dataclass(frozen=True)
class Optimizing:
    """Findings, needs and blocked work of all tables, each most urgent first, and the newest runs.

    ``needing`` tables have a finding or a need.
    """

    needing: int
    findings: Sequence[TableFinding]
    needs: Sequence[TableNeed]
    waits: Sequence[TableWait]
    runs: Sequence[Run]


@pages.get("/optimizing")
def optimizing_page(request: Request) -> HTMLResponse:
    """The page; refreshed every few seconds."""
    dashboard = dashboard_of(request)
    same = Equivalents(
        "/api/v1/optimizing", ("lakelog", "optimize", "--dry-run", "--warehouse", dashboard.settings.warehouse)
    )
    return render(
        request, "optimizing.html", "Optimizing", {"all": _optimizing(dashboard), **page_rights(request)}, same
    )


@api.get("/optimizing")
def get_optimizing(request: Request) -> Optimizing:
    """Needs and blocked work of all tables, and the newest runs of maintenance."""
    return _optimizing(dashboard_of(request))


def _optimizing(dashboard: Dashboard) -> Optimizing:
    tables = dashboard.watcher.all()[0]
    healths = [(one.name, one.health) for one in tables]
    alive = [(one.name, one.health.figures.snapshots.newest_ms or 0) for one in tables if one.health.figures]
    needs_ = [TableNeed(name, need) for name, health in healths for need in health.needs]
    busy = nlargest(_TABLES, alive, key=lambda pair: pair[1])
    runs = [run for name, _ in busy for run in _runs(dashboard, name)]
    return Optimizing(
        sum(bool(health.findings or health.needs) for _, health in healths),
        findings_of(tables),
        sorted(needs_, key=lambda one: (-one.need.urgency, one.table)),
        [TableWait(name, wait) for name, health in healths for wait in health.waits],
        nlargest(_RUNS, runs, key=lambda run: run.started_ms),
    )


def _runs(dashboard: Dashboard, name: str) -> Sequence[Run]:
    try:
        return dashboard.lake.table(name).runs(_RUNS)
    except LakelogError:
        return ()  # dropped in the meantime, or unreachable; the overview reports it
