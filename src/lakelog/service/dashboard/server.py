"""Runs the dashboard until it is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from lakelog.errors import InvalidRequest
from lakelog.lake import connect
from lakelog.service.dashboard.app import build_app
from lakelog.service.dashboard.figures import FigureHistory
from lakelog.service.dashboard.security.identity import Access
from lakelog.service.dashboard.security.users import Users
from lakelog.service.dashboard.settings import LOOPBACK, DashboardSettings
from lakelog.service.dashboard.state import Dashboard
from lakelog.service.dashboard.watcher import Watcher

_STOP_S: Final = 3


def serve(settings: DashboardSettings, started: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM; ``started`` is called with the address when browsers may come.

    Port 0 takes a free one. Raises InvalidRequest for settings that are not safe and for a port that is taken.
    """
    settings.check()
    listener = _listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    lake = connect(
        warehouse=settings.warehouse,
        catalogs=settings.catalogs,
        storage_options=settings.storage_options,
        catalog_options=settings.catalog_options,
    )
    state = settings.state.expanduser()
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    history = FigureHistory(state / "figures.sqlite")
    access = Access(Users(settings.users_file) if settings.users_file else None, settings.token, settings.over_tls)
    if access.users is not None:
        access.users.read()
    dashboard = Dashboard(settings, lake, Watcher(lake, history), access)
    try:
        _server(build_app(dashboard, port), settings, lambda: started(_address(settings, port))).run([listener])
    finally:
        history.close()
        lake.close()


def _server(app: object, settings: DashboardSettings, started: Callable[[], None]) -> uvicorn.Server:
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,  # who connects is who connects: a header that anybody may write decides nothing
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_STOP_S,
        backlog=512,
        h11_max_incomplete_event_size=32_768,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )

    class Told(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                started()

    return Told(config)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as refused:
        listener.close()
        raise InvalidRequest(f"cannot listen on {host}:{port}: {refused.strerror}; choose another --port") from refused
    return listener


def _address(settings: DashboardSettings, port: int) -> str:
    host = "localhost" if settings.host == LOOPBACK else settings.host
    return f"{settings.scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
