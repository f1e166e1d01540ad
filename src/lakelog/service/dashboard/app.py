"""Assembles the dashboard: the routes, and the middleware in front of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from lakelog.errors import LakelogError
from lakelog.service.dashboard.answers import (
    Answers,
    answer_http_error,
    answer_lakelog_error,
    answer_other_error,
    answer_wrong_request,
)
from lakelog.service.dashboard.render import STATIC
from lakelog.service.dashboard.routes import (
    actions,
    iceberg,
    login,
    optimizing,
    overview,
    settings,
    tables,
    terminal,
    views,
)
from lakelog.service.dashboard.security.identity import Identify
from lakelog.service.dashboard.security.middleware.headers import Origins, SafeHeaders
from lakelog.service.dashboard.security.middleware.limits import Limits
from lakelog.service.dashboard.state import Dashboard

API: Final = "/api/v1"
_SWEEP_S: Final = 30.0
_ROUTES: Final = (actions, overview, tables, views, terminal, optimizing, settings, login)


def build_app(dashboard: Dashboard, port: int) -> ASGIApp:
    """The ASGI application of a server on this port.

    A request passes these layers from the outside: safe headers, host and origin, identity, limits, shared answers, and
    its route, which declares the role that it needs.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        dashboard.watcher.start()
        sweeping = asyncio.create_task(_sweep(dashboard))
        try:
            yield
        finally:
            sweeping.cancel()
            dashboard.watcher.stop()

    app = FastAPI(
        title="lakelog",
        description="What the pages of the dashboard show. Programs send 'Authorization: Bearer <token>'.",
        version=version("lakelog"),
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # its page would load scripts from another host
        redoc_url=None,
        redirect_slashes=False,  # behind a proxy it would lead from https to http
        lifespan=lifespan,
    )
    app.state.dashboard = dashboard
    app.add_exception_handler(LakelogError, answer_lakelog_error)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_exception_handler(RequestValidationError, answer_wrong_request)
    app.add_exception_handler(Exception, answer_other_error)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_api_route("/healthz", _healthz, include_in_schema=False)
    for routes in _ROUTES:
        app.include_router(routes.pages)
    for routes in _ROUTES:
        app.include_router(routes.api, prefix=API)
    app.include_router(iceberg.api)
    return _guarded(app, dashboard, port)


def _healthz() -> dict[str, str]:
    """Liveness of the server, for load balancers; independent of the tables."""
    return {"status": "ok"}


def _guarded(app: ASGIApp, dashboard: Dashboard, port: int) -> ASGIApp:
    settings = dashboard.settings
    app = Limits(_head_as_get(Answers(app)))
    app = Identify(app, dashboard.gate, dashboard.cookies)
    app = Origins(app, settings.own_hosts(port), settings.scheme)
    return SafeHeaders(app, settings.over_tls)


def _head_as_get(app: ASGIApp) -> ASGIApp:
    """Handles HEAD as GET; the server omits the body."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await app(scope, receive, send)

    return answer


async def _sweep(dashboard: Dashboard) -> None:
    """Ends expired sessions together with their terminals."""
    while True:
        await asyncio.sleep(_SWEEP_S)
        dashboard.gate.sweep()
