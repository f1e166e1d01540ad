"""One table: health, columns, snapshots, files, log, rows, and a live tail."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, StreamingResponse

from lakelog.errors import InvalidRequest, InvalidSchema, NotFound, Unavailable, UnsupportedStatement
from lakelog.io.clock import now_ms
from lakelog.lake import Table
from lakelog.service.access.identity import Identity
from lakelog.service.dashboard.definition_history import DefinitionChange, definition_changes
from lakelog.service.dashboard.previews.grid import (
    COLUMNS,
    ExportRequest,
    Grid,
    HistoryRequest,
    RecordsRequest,
    RowsRequest,
    SystemRequest,
)
from lakelog.service.dashboard.previews.grid import Request as PreviewRequest
from lakelog.service.dashboard.previews.reads import LISTED_TABLES
from lakelog.service.dashboard.render import Equivalents, render
from lakelog.service.dashboard.security.identity import identity_of, needs
from lakelog.service.dashboard.state import Dashboard, dashboard_of, page_rights
from lakelog.service.dashboard.time_series import Plot
from lakelog.service.dashboard.view_graph import view_line
from lakelog.service.dashboard.views import LogPage, TablePage, findings_of, history_grid, log_page, table_page
from lakelog.service.dashboard.watcher import Watched
from lakelog.service.terminal.audit import AuditEntry
from lakelog.sql.runtime.statement import Privilege
from lakelog.table.maintenance.run_history import Run

pages = APIRouter(include_in_schema=False, dependencies=[Depends(needs(Privilege.READ))])
api = APIRouter(tags=["one table"], dependencies=[Depends(needs(Privilege.READ))])

Who = Annotated[Identity, Depends(needs(Privilege.READ))]
Name = Annotated[str, Path(max_length=300, description="db.table, or catalog.db.table")]
FirstColumn = Annotated[int, Query(ge=0, le=1_000_000)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Tab = Literal["columns", "snapshots", "files", "log", "rows", "history", "runs"]
Kind = Literal["files", "partitions", "buckets", "schemas", "tags", "branches", "consumers", "options"]
Where = Annotated[str, Query(max_length=2_000)]
_HOUR_MS = 3_600_000
_TABS = (("", "Health"), *((tab, tab.title()) for tab in get_args(Tab)))
_LINES = 100
_MOST_OFFSET = (1 << 63) - 1


@dataclass(frozen=True)
class TabQuery:
    """The query parameters of a table's page, without the tab."""

    before: Annotated[int | None, Query(ge=1)] = None
    kind: Kind = "files"
    first_column: FirstColumn = 0
    bucket: Annotated[int | None, Query(ge=0, le=1_000_000)] = None
    start: Literal["latest", "offset", "time"] = "latest"
    at: Annotated[str, Query(max_length=40)] = ""
    text: Annotated[str, Query(max_length=200)] = ""
    where: Where = ""
    position: Annotated[int, Query(ge=0, le=1_000_000)] = 0

    def records(self, name: str, limit: int) -> RecordsRequest:
        """The request to the log. Raises InvalidRequest for an invalid offset or time."""
        try:
            offset = min(int(self.at), _MOST_OFFSET) if self.start == "offset" else None
            time = datetime.fromisoformat(self.at) if self.start == "time" else None
        except ValueError:
            raise InvalidRequest(
                f"'{self.at}' is not a valid {self.start}: write 1234, or 2024-01-31 12:00 (UTC)"
            ) from None
        if time is not None:
            time = time if time.tzinfo else time.replace(tzinfo=UTC)
        time_ms = None if time is None else round(time.timestamp() * 1000)
        return RecordsRequest(name, self.bucket or 0, limit, offset, time_ms, self.text, self.position)


@pages.get("/tables/{name}")
def table_overview(request: Request, name: Name) -> HTMLResponse:
    """Health and plots."""
    dashboard_of(request).previews.warm()
    watched = dashboard_of(request).watcher.need(_plain(name))
    more = {"watched": watched, "findings": findings_of([watched]), "line": view_line(watched)}
    return _draw(request, "table_health.html", name, "", more)


@pages.get("/tables/{name}/{tab}")
async def table_tab(request: Request, name: Name, tab: Tab, asked: Annotated[TabQuery, Depends()]) -> HTMLResponse:
    """One of the other views of a table."""
    dashboard = dashboard_of(request)
    more = await run_in_threadpool(_tab, request, name, tab, asked)
    if tab in ("rows", "files", "log", "history"):
        more |= {"grid": None, "trouble": "", "asked": asked}
        is_refresh = tab == "log" and "hx-request" in request.headers
        try:
            if not is_refresh and (preview := _preview(name, tab, asked)) is not None:
                grid = await dashboard.previews.grid(preview, identity_of(request).user)
                more["grid"] = grid.spoken() if tab == "files" else grid
        except (InvalidRequest, InvalidSchema, UnsupportedStatement, Unavailable) as failure:
            more["trouble"] = str(failure)
    return _draw(request, f"table_{tab}.html", name, tab, more)


def _tab(request: Request, name: str, tab: Tab, asked: TabQuery) -> dict[str, Any]:
    dashboard = dashboard_of(request)
    table = _table(dashboard, name)
    dashboard.previews.warm()
    if tab == "columns":
        _, watched = _watched(request, name)
        page = table_page(table, watched.health, asked.first_column, COLUMNS)
        return {"page": page, "page_columns": COLUMNS, "definitions": definition_changes(table)}
    if tab == "snapshots":
        grid = history_grid(table, asked.before, _LINES)
        return {"grid": grid.spoken(), "last": grid.rows[-1][0] if grid.rows else None}
    if tab == "files":
        return {"kind": asked.kind, "kinds": list(LISTED_TABLES)}
    if tab == "log":
        return {"page": log_page(_watched(request, name)[1])}
    if tab == "history":
        return {"example": f"{(table.primary_keys or table.schema.names)[0]} = …"}
    if tab == "rows":
        return {"has_log": table.log is not None, "page_columns": COLUMNS}
    return {"runs": table.runs(_LINES)}


def _preview(name: str, tab: Tab, asked: TabQuery) -> PreviewRequest | None:
    if tab == "rows":
        return RowsRequest(name, _LINES, asked.first_column, asked.where)
    if tab == "history":
        return HistoryRequest(name, asked.where, _LINES) if asked.where.strip() else None
    if tab == "files":
        return SystemRequest(name, asked.kind, 5 * _LINES)
    return None if asked.bucket is None else asked.records(name, _LINES)


@api.get("/tables/{name}")
def get_table(request: Request, name: Name, first_column: FirstColumn = 0, limit: Limit = 1_000) -> TablePage:
    """Columns, options, the newest statistics, and the resulting health."""
    table, watched = _watched(request, name)
    return table_page(table, watched.health, first_column, limit)


@api.get("/tables/{name}/log")
def get_log(request: Request, name: Name) -> LogPage:
    """Offsets, lag, writers and readers of the log."""
    page = log_page(_watched(request, name)[1])
    if page is None:
        raise NotFound(f"table {name} has no log")
    return page


@api.get("/tables/{name}/log/records")
async def get_records(request: Request, name: Name, asked: Annotated[TabQuery, Depends()], limit: Limit = 100) -> Grid:
    """Records of a bucket of the log: the last ones, those from an offset or a time on, or those with a key.

    A record with several changes is a row for each.
    """
    return await _previewed(request, asked.records(name, limit))


@api.get("/tables/{name}/snapshots")
def get_snapshots(
    request: Request, name: Name, before: Annotated[int | None, Query(ge=1)] = None, limit: Limit = 100
) -> Grid:
    """The newest snapshots, or those before one."""
    return history_grid(_table(dashboard_of(request), name), before, limit)


@api.get("/tables/{name}/rows")
async def get_rows(
    request: Request, name: Name, limit: Limit = 100, first_column: FirstColumn = 0, where: Where = ""
) -> Grid:
    """Rows of the newest snapshot that match a condition, such as ``name like '%berg%'``.

    At most 100 columns from ``first_column`` on and 1 MiB, within 10 s and 256 MiB.
    """
    return await _previewed(request, RowsRequest(name, limit, first_column, where))


@api.get("/tables/{name}/export", response_class=StreamingResponse)
async def export_rows(
    request: Request, identity: Who, name: Name, where: Where = "", format: Literal["csv", "jsonl"] = "csv"
) -> StreamingResponse:
    """All rows of the newest snapshot that match a condition, as a file: CSV with a header, or JSON lines.

    An entry of the audit log names the user and the condition. A connection that ends early has not all rows.
    """
    dashboard = dashboard_of(request)
    await run_in_threadpool(_table, dashboard, name)
    chunks = dashboard.previews.export(ExportRequest(name, where, format))
    first = [chunk async for chunk in _first(chunks)]  # an error of the condition or the table is the answer
    text = f"export {name} as {format}" + (f" where {where}" if where else "")
    address = identity.session.address if identity.session else ""
    dashboard.terminals.audit.append(
        AuditEntry(now_ms(), identity.user, identity.role.word, "", "", text, "done", kind="export", address=address)
    )

    async def all_chunks() -> AsyncGenerator[bytes]:
        for chunk in first:
            yield chunk
        async for chunk in chunks:
            yield chunk

    file = f"{quote(name)}.{format}"
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{file}"}
    kind = "text/csv; charset=utf-8" if format == "csv" else "application/x-ndjson"
    return StreamingResponse(dashboard.streams.limited(identity, all_chunks()), media_type=kind, headers=headers)


async def _first(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The first chunk, if there is one; the others stay."""
    with contextlib.suppress(StopAsyncIteration):
        yield await anext(chunks)


@api.get("/tables/{name}/history")
async def get_row_history(request: Request, name: Name, where: Where, limit: Limit = 100) -> Grid:
    """What happened to the rows that match a condition, such as ``id = 42``: the changes in the log and in snapshots.

    Each has its time, writer, epoch and place, the newest first. A row that was changed to match is there, too.
    """
    return await _previewed(request, HistoryRequest(name, where, limit))


@api.get("/tables/{name}/definitions")
def get_definitions(request: Request, name: Name, limit: Limit = 100) -> list[DefinitionChange]:
    """The definitions of the table with their times, and what each has changed, the newest first."""
    return definition_changes(_table(dashboard_of(request), name), limit)


@api.get("/tables/{name}/runs")
def get_runs(request: Request, name: Name, limit: Limit = 100) -> list[Run]:
    """The maintenance runs of the table, newest first."""
    return list(_table(dashboard_of(request), name).runs(limit))


@api.get("/tables/{name}/system/{kind}")
async def get_system_table(request: Request, name: Name, kind: Kind, limit: Limit = 100) -> Grid:
    """The first rows of one of the table's system tables."""
    return await _previewed(request, SystemRequest(name, kind, limit))


@api.get("/tables/{name}/plots/{plot}")
def get_plot(request: Request, name: Name, plot: str, hours: Annotated[float, Query(gt=0, le=1440)] = 1) -> Plot:
    """Statistics over the last hours, while this dashboard was running."""
    dashboard = dashboard_of(request)
    dashboard.watcher.mark_watched(name)
    return dashboard.watcher.history.plot(name, plot, now_ms() - round(hours * _HOUR_MS))


@api.get("/tables/{name}/tail", response_class=StreamingResponse)
async def tail_table(request: Request, identity: Who, name: Name) -> StreamingResponse:
    """New rows of the log as server-sent events; at most 16 streams per session and 128 per user."""
    dashboard = dashboard_of(request)
    table = await run_in_threadpool(_table, dashboard, name)
    if table.log is None:
        raise InvalidRequest(f"table {name} has no log to follow: it was created without 'log-store.enabled'='true'")
    events = dashboard.streams.limited(identity, dashboard.tails.events(table))
    return StreamingResponse(events, media_type="text/event-stream")


async def _previewed(request: Request, preview: PreviewRequest) -> Grid:
    dashboard = dashboard_of(request)
    await run_in_threadpool(_table, dashboard, preview.table)
    return await dashboard.previews.grid(preview, identity_of(request).user)


def _table(dashboard: Dashboard, name: str) -> Table:
    """The table of a name. Raises InvalidRequest for a system table."""
    return dashboard.lake.table(_plain(name))


def _plain(name: str) -> str:
    if "$" in name:
        raise InvalidRequest(f"'{name}' is a system table: open its table and choose it on the Files tab")
    return name


def _watched(request: Request, name: str) -> tuple[Table, Watched]:
    dashboard = dashboard_of(request)
    return _table(dashboard, name), dashboard.watcher.need(name)


def _draw(request: Request, template: str, name: str, tab: str, more: dict[str, Any]) -> HTMLResponse:
    commands = {"": "health", "columns": "describe", "log": "log", "rows": "head"}
    command = (commands[tab], name) if tab in commands else ("show", name, tab)
    same = Equivalents(
        f"/api/v1/tables/{quote(name)}" + ({"": "", "columns": "", "files": "/system/files"}.get(tab, f"/{tab}")),
        ("lakelog", *command),
    )
    return render(
        request, template, name, {"name": name, "tab": tab, "tabs": _TABS, **more, **page_rights(request)}, same
    )
