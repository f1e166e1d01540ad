"""Login, logout, and the active sessions."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from lakelog.errors import NotFound
from lakelog.service.access.gate import Refused
from lakelog.service.access.identity import Identity
from lakelog.service.access.users import TOKEN_USER
from lakelog.service.dashboard.render import render
from lakelog.service.dashboard.security.identity import client_address, identity_of, needs
from lakelog.service.dashboard.state import dashboard_of
from lakelog.sql.runtime.statement import Privilege

pages = APIRouter(include_in_schema=False)
api = APIRouter(tags=["sessions"])


@pages.get("/login")
def login_page(request: Request, next: str = "/") -> Response:
    """The form; a user with a session is redirected."""
    if request.scope["state"]["identity"] is not None:
        return RedirectResponse(_own_path(next), 303)
    return _form(request, next, "")


@pages.post("/login")
async def login(
    request: Request,
    user: Annotated[str, Form(max_length=100)] = "",
    password: Annotated[str, Form(max_length=1000)] = "",
    next: Annotated[str, Form(max_length=2000)] = "/",
) -> Response:
    """Begins a session. A wrong user and a wrong password get the same answer; after five failures one has to wait."""
    gate, cookies = dashboard_of(request).gate, dashboard_of(request).cookies
    address = client_address(request.scope, gate.access.behind_proxy)
    name, headers = user.strip(), request.headers
    browser = cookies.known_browser(headers.get("cookie", ""), name or TOKEN_USER)
    outcome = await gate.log_in(name, password, address, browser, headers.get("user-agent", ""))
    if isinstance(outcome, Refused):
        return _form(request, next, outcome.why, outcome.status)
    secret, session = outcome
    answer = RedirectResponse(_own_path(next), 303)
    answer.headers.append("set-cookie", cookies.begin_session(secret))
    answer.headers.append("set-cookie", cookies.mark_browser(session.user))
    return answer


@pages.post("/logout")
def logout(request: Request) -> Response:
    """Ends the session on the server, not only in the browser."""
    gate, identity = dashboard_of(request).gate, identity_of(request)
    if identity.session is not None:
        gate.end(identity.session.key, "logout")
    answer = Response(status_code=204, headers={"hx-redirect": "/login"})
    answer.headers["set-cookie"] = dashboard_of(request).cookies.end_session()
    return answer


@api.delete("/sessions/{key}", status_code=204)
def end_session(request: Request, key: str, identity: Annotated[Identity, Depends(needs(Privilege.ADMIN))]) -> None:
    """Ends the session of any user at once."""
    if not dashboard_of(request).gate.end(key, "ended", identity.user):
        raise NotFound(f"no session '{key}'")


def _form(request: Request, next: str, why: str, status: int = 200) -> HTMLResponse:
    access = dashboard_of(request).gate.access
    view = {
        "next": _own_path(next),
        "why": why,
        "has_users": access.users is not None,
        "has_token": access.token is not None,
    }
    return render(request, "login.html", "Log in", view, status=status)


def _own_path(there: str) -> str:
    """A path on this server, never the address of another server."""
    parts = urlsplit(there)
    is_own = there.startswith("/") and not there.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return there if is_own and not there.startswith("/login") else "/"
