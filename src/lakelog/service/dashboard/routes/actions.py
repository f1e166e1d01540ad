"""Actions: maintenance of a table, started where a page reports the need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, Field

from lakelog.service.access.identity import Identity
from lakelog.service.dashboard.actions.actions import Action
from lakelog.service.dashboard.security.identity import needs
from lakelog.service.dashboard.state import dashboard_of
from lakelog.sql.runtime.statement import Privilege

pages = APIRouter(include_in_schema=False)
api = APIRouter(prefix="/actions", tags=["actions"])
Admin = Annotated[Identity, Depends(needs(Privilege.ADMIN))]

Argument = Annotated[str, Field(max_length=300)]


class ActionRequest(BaseModel):
    """The table and the kind of maintenance, or a procedure with its arguments by name."""

    table: Annotated[str, Field(max_length=300)]
    kind: Annotated[str, Field(max_length=50)]
    arguments: Annotated[dict[Annotated[str, Field(max_length=50)], Argument], Field(max_length=4)] = {}


@api.get("", dependencies=[Depends(needs(Privilege.READ))])
def list_actions(request: Request) -> Sequence[Action]:
    """The running actions and the last that have ended, newest first."""
    return dashboard_of(request).actions.list()


@api.post("", status_code=202)
def start_action(request: Request, identity: Admin, asked: ActionRequest) -> Action:
    """Starts an action and answers at once. It runs in its own process and is recorded in the audit log."""
    dashboard = dashboard_of(request)
    table = dashboard.lake.table(asked.table)
    table.logical.check_writable()
    return dashboard.actions.start(identity, table.name, asked.kind, {k: v for k, v in asked.arguments.items() if v})


@api.get("/{number}", dependencies=[Depends(needs(Privilege.READ))])
def get_action(request: Request, number: Annotated[int, Path(ge=1)]) -> Action:
    """The progress of an action."""
    return dashboard_of(request).actions.get(number)
