"""Terminal: any statement, in its own process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Final, Literal

import orjson
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from lakelog.service.access.identity import Identity
from lakelog.service.dashboard.previews.tail import event
from lakelog.service.dashboard.render import Equivalents, render
from lakelog.service.dashboard.security.identity import needs
from lakelog.service.dashboard.state import dashboard_of
from lakelog.service.terminal.audit import AuditEntry
from lakelog.service.terminal.execution import Execution, ExecutionState
from lakelog.service.terminal.protocol.results import csv_of
from lakelog.service.terminal.terminal import TerminalState
from lakelog.sql.runtime.statement import Privilege
from lakelog.sql.syntax.masking import without_secrets

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/terminal", tags=["terminal"])

Who = Annotated[Identity, Depends(needs(Privilege.READ))]
Admin = Annotated[Identity, Depends(needs(Privilege.ADMIN))]
QueryName = Annotated[str, Path(max_length=100)]
_QUIET_S: Final = 10.0
_NUMBER: Final = re.compile("[0-9]{1,18}")


class Text(BaseModel):
    """The text to run."""

    text: Annotated[str, Field(max_length=200_000)]
    catalog: Annotated[str | None, Field(max_length=200)] = None
    database: Annotated[str | None, Field(max_length=200)] = None


class SavedText(BaseModel):
    """The text to save."""

    text: Annotated[str, Field(max_length=200_000)]


@dataclass(frozen=True)
class TerminalView:
    """The terminal of a session, None before its first statement, and its texts, newest first."""

    state: TerminalState | None
    executions: Sequence[ExecutionState]


SNIPPETS: Final = (
    ("Show tables", "SHOW TABLES"),
    ("Describe table", "DESCRIBE EXTENDED db.t"),
    ("Create table", "CREATE TABLE db.t (id BIGINT, name STRING, PRIMARY KEY (id)) USING lakelog\n"
               "TBLPROPERTIES ('log-store.enabled' = 'true')"),
    ("Follow log", "SELECT * FROM db.t /*+ OPTIONS('read.mode' = 'log') */"),
    ("Read both stores", "SELECT * FROM db.t /*+ OPTIONS('read.mode' = 'union') */"),
    ("Read older snapshot", "SELECT * FROM db.t VERSION AS OF 1"),
    ("Show snapshots", "SELECT * FROM `db.t$snapshots` ORDER BY snapshot_id DESC"),
    ("Show log", "SELECT * FROM `db.t$log`"),
    ("Compact table", "CALL sys.compact(table => 'db.t')"),
)  # fmt: skip
"""Statements that the page appends to the text of the editor."""


@pages.get("/terminal")
def terminal_page(request: Request, identity: Who) -> HTMLResponse:
    """The page; the browser keeps the last text."""
    dashboard = dashboard_of(request)
    view = {"catalogs": dashboard.lake.list_catalogs(), "snippets": SNIPPETS, "role": identity.role.word}
    same = Equivalents(
        "/api/v1/terminal", ("lakelog", "sql", "--warehouse", dashboard.settings.warehouse, "SHOW TABLES")
    )
    return render(request, "terminal.html", "Terminal", view, same)


@api.get("")
def get_terminal(request: Request, identity: Who) -> TerminalView:
    """The state of this session's terminal, and its last texts."""
    terminal = dashboard_of(request).terminals.of(identity)
    if terminal is None:
        return TerminalView(None, ())
    return TerminalView(terminal.state(), [one.snapshot() for one in terminal.executions()])


@api.delete("", status_code=204)
def close_terminal(request: Request, identity: Who) -> None:
    """Ends this session's process with its queries, streams and temporary views."""
    dashboard_of(request).terminals.close(identity)


@api.post("/texts", status_code=202)
def submit(request: Request, identity: Who, given: Text) -> ExecutionState:
    """Runs one or more statements and answers at once. The worker checks the privilege that each statement needs.

    The text in the answer, which a browser may keep, has asterisks in place of secrets.
    """
    terminal = dashboard_of(request).terminals.open(identity)
    state = terminal.submit(given.text, given.catalog or None, given.database or None).snapshot()
    return replace(state, text=without_secrets(state.text))


@api.get("/texts/{number}")
def get_text(request: Request, identity: Who, number: int) -> ExecutionState:
    """The current state of a text, without its rows."""
    return _execution(request, identity, number).snapshot()


@api.get("/texts/{number}/rows")
def get_rows(
    request: Request,
    identity: Who,
    number: int,
    statement: Annotated[int, Query(ge=0)] = 0,
    format: Literal["json", "csv"] = "json",
) -> Response:
    """The kept rows of a statement as a file: a list of objects, or CSV."""
    execution = _execution(request, identity, number)
    result = next((one for one in execution.snapshot().statements if one.number == statement), None)
    names = [column["name"] for column in result.columns] if result else []
    rows = execution.rows(statement)
    if format == "csv":
        body, kind = csv_of(names, rows), "text/csv; charset=utf-8"
    else:
        body, kind = orjson.dumps([dict(zip(names, row, strict=True)) for row in rows]), "application/json"
    name = f"lakelog-{number}-{statement}.{format}"
    return Response(body, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


@api.get("/texts/{number}/events", response_class=StreamingResponse)
async def follow_text(
    request: Request, identity: Who, number: int, after: Annotated[int, Query(ge=0)] = 0
) -> StreamingResponse:
    """The events of a text as server-sent events; after a lost connection, a client continues after ``after``."""
    execution = _execution(request, identity, number)
    last = request.headers.get("last-event-id", "")
    begin = int(last) if _NUMBER.fullmatch(last) else after
    events = dashboard_of(request).streams.limited(identity, _events(execution, begin))
    return StreamingResponse(events, media_type="text/event-stream")


@api.post("/texts/{number}/cancel", status_code=202)
def cancel(request: Request, identity: Who, number: int) -> ExecutionState:
    """Ends a text and the streams that it started."""
    execution = _execution(request, identity, number)
    execution.cancel()
    return execution.snapshot()


@api.post("/texts/{number}/streams/{statement}/stop", status_code=204)
def stop_stream(request: Request, identity: Who, number: int, statement: int) -> None:
    """Stops one streaming statement; its committed rows stay."""
    dashboard_of(request).terminals.need(identity).stop_stream(number, statement)


@api.get("/queries")
def list_queries(request: Request, identity: Who) -> dict[str, str]:
    """The saved queries of the user: name → text."""
    return dashboard_of(request).queries.of(identity.user)


@api.put("/queries/{name}", status_code=204)
def save_query(request: Request, identity: Who, name: QueryName, query: SavedText) -> None:
    """Saves a text under a name, in place of an earlier one. Only the user sees it."""
    dashboard_of(request).queries.save(identity.user, name, query.text)


@api.delete("/queries/{name}", status_code=204)
def delete_query(request: Request, identity: Who, name: QueryName) -> None:
    """Deletes a saved query."""
    dashboard_of(request).queries.delete(identity.user, name)


@api.get("/audit")
def get_audit(
    request: Request, identity: Admin, limit: Annotated[int, Query(ge=1, le=1_000)] = 100
) -> list[AuditEntry]:
    """The audit log, newest first."""
    return dashboard_of(request).terminals.audit.newest(limit)


def _execution(request: Request, identity: Identity, number: int) -> Execution:
    return dashboard_of(request).terminals.need(identity).execution(number)


async def _events(execution: Execution, after: int) -> AsyncGenerator[bytes]:
    yield b": connected\n\n"
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the server has stopped
            loop.call_soon_threadsafe(changed.set)

    with execution.listening(wake):
        while True:
            changed.clear()
            was_over = execution.is_over
            for one in execution.events(after, 0):
                after = one.sequence
                yield b"id: %d\n" % after + event("happened", asdict(one))
            if was_over:
                now = execution.snapshot()
                yield event("over", {"state": now.state, "error": now.error.message if now.error else None})
                return
            try:
                await asyncio.wait_for(changed.wait(), _QUIET_S)
            except TimeoutError:
                yield b": nothing new\n\n"
