"""Logging in and out, and the sessions that are alive."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from lakelog.errors import NotFound
from lakelog.service.dashboard.pages import draw
from lakelog.service.dashboard.security.identity import Identity, no_cookie, session_cookie
from lakelog.service.dashboard.security.rights import identity_of, needs
from lakelog.service.dashboard.security.users import TOKEN_USER, is_token
from lakelog.service.dashboard.state import Dashboard, dashboard_of
from lakelog.sql.right import Right

pages = APIRouter(include_in_schema=False)
api = APIRouter(tags=["sessions"])


@pages.get("/login")
def login_page(request: Request, next: str = "/") -> Response:
    """The form; whoever is logged in goes on."""
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
    """Begins a session. The same words for a wrong user and a wrong password; five failures and one has to wait."""
    dashboard = dashboard_of(request)
    address = request.client.host if request.client else ""
    wait = dashboard.throttle.wait_s(address)
    if wait > 0:
        return _form(request, next, f"too many failed logins: try again in {wait:.0f} s", 429)
    name, role = await run_in_threadpool(_known, dashboard, user.strip(), password)
    if role is None:
        dashboard.throttle.failed(address)
        dashboard.note("login refused", name or TOKEN_USER, address)
        return _form(request, next, "user and password, or the token, are not right", 401)
    dashboard.throttle.succeeded(address)
    secret, _ = dashboard.sessions.begin(name, role)
    dashboard.note("login", name, address)
    answer = RedirectResponse(_own_path(next), 303)
    answer.headers["set-cookie"] = session_cookie(secret, dashboard.settings.over_tls)
    return answer


@pages.post("/logout")
def logout(request: Request) -> Response:
    """Ends the session here, not only in the browser."""
    dashboard, identity = dashboard_of(request), identity_of(request)
    if identity.session is not None:
        dashboard.end_session(identity.session.key)
    answer = Response(status_code=204, headers={"hx-redirect": "/login"})
    answer.headers["set-cookie"] = no_cookie()
    return answer


@api.delete("/sessions/{key}", status_code=204)
def end_session(request: Request, key: str, identity: Annotated[Identity, Depends(needs(Right.ADMIN))]) -> None:
    """Ends somebody's session at once."""
    dashboard = dashboard_of(request)
    if not dashboard.end_session(key):
        raise NotFound(f"no session '{key}'")
    dashboard.note(f"session {key} ended", identity.user)


def _known(dashboard: Dashboard, user: str, password: str) -> tuple[str, Right | None]:
    access = dashboard.access
    if user and access.users is not None:
        return user, access.users.check(user, password)
    return TOKEN_USER, Right.ADMIN if is_token(password, access.token) else None


def _form(request: Request, next: str, why: str, status: int = 200) -> HTMLResponse:
    access = dashboard_of(request).access
    view = {
        "next": _own_path(next),
        "why": why,
        "has_users": access.users is not None,
        "has_token": access.token is not None,
    }
    return draw(request, "login.html", "Log in", view, status=status)


def _own_path(there: str) -> str:
    """A path of this server, never the address of another one."""
    parts = urlsplit(there)
    is_own = there.startswith("/") and not there.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return there if is_own and not there.startswith("/login") else "/"
