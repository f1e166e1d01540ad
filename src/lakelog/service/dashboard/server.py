"""Runs the dashboard until it is stopped."""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from lakelog.errors import InvalidRequest
from lakelog.lake import connect
from lakelog.service.access.gate import Access, Gate
from lakelog.service.access.sessions import Sessions
from lakelog.service.access.users import Users
from lakelog.service.dashboard.actions.actions import Actions
from lakelog.service.dashboard.app import build_app
from lakelog.service.dashboard.live.saved_queries import SavedQueries
from lakelog.service.dashboard.live.streams import Streams
from lakelog.service.dashboard.live.terminals import Terminals
from lakelog.service.dashboard.previews.previews import Previews
from lakelog.service.dashboard.security.cookies import Cookies
from lakelog.service.dashboard.security.middleware.connections import LimitedListener
from lakelog.service.dashboard.security.middleware.timeouts import TimeoutProtocol
from lakelog.service.dashboard.settings import DashboardSettings
from lakelog.service.dashboard.state import Dashboard
from lakelog.service.dashboard.time_series import StatsHistory
from lakelog.service.dashboard.watcher import Watcher
from lakelog.service.loopback import LOOPBACK
from lakelog.service.terminal.audit import AuditLog

_STOP_S: Final = 3
_CONNECTIONS: Final = 2_000
_FILES: Final = 65_536
_OWN_FILES: Final = 512
"""Number of open files reserved for tables, the audit log and other files of the server."""
_ACCEPTED: Final = 32
"""Maximum number of connections that asyncio accepts per loop iteration, so that a flood does not block others."""
_SWITCH_S: Final = 0.001
"""Interpreter switch interval: the longest wait of a page's thread for the GIL while the event loop is busy."""


class DashboardServer:
    """One dashboard. The constructor binds the port, so that the address is known; ``run`` serves.

    Port 0 binds a free port. For the overview, ``checks`` return the problems of related processes, such as the demo,
    and ``stages`` what they are doing. Raises InvalidRequest for unsafe settings and for a port that is in use.
    """

    def __init__(
        self,
        settings: DashboardSettings,
        checks: Mapping[str, Callable[[], str]] | None = None,
        stages: Mapping[str, Callable[[], str]] | None = None,
    ) -> None:
        settings.check()
        self._settings, self._checks, self._stages = settings, checks or {}, stages or {}
        self._listener = _listen(settings.host, settings.port)
        self.port: int = self._listener.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._is_over = threading.Event()

    @property
    def address(self) -> str:
        host = "localhost" if self._settings.host == LOOPBACK else self._settings.host
        return f"{self._settings.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def run(self, started: Callable[[str], None]) -> None:
        """Serves until SIGINT, SIGTERM or ``stop``; calls ``started`` with the address once the server listens."""
        settings = self._settings
        sys.setswitchinterval(_SWITCH_S)
        self._listener.most = _most_connections()
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self._listener.close)
            connection: dict[str, Any] = {
                "warehouse": settings.warehouse,
                "catalogs": settings.catalogs,
                "storage_options": settings.storage_options,
                "catalog_options": settings.catalog_options,
            }
            lake = cleanup.enter_context(connect(**connection))
            previews = Previews(connection)
            cleanup.callback(previews.close)
            state = settings.state.expanduser()
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            history = StatsHistory(state / "figures.sqlite")
            cleanup.callback(history.close)
            users = Users(settings.users_file) if settings.users_file else None
            if users is not None:
                users.read()
            audit = AuditLog(state / "audit.jsonl")
            terminals = Terminals(settings, audit)
            cleanup.callback(terminals.close_all)
            access = Access(users, settings.token, settings.behind_proxy)
            actions = Actions(connection, audit.append)
            cleanup.callback(actions.close)
            sessions = Sessions()
            gate = Gate(access, audit, terminals.close_session, sessions)
            dashboard = Dashboard(
                settings,
                lake,
                Watcher(lake, history, self._checks, stages=self._stages),
                gate,
                Cookies(self.port, settings.over_tls),
                terminals,
                Streams(sessions.is_alive),
                previews,
                actions,
                SavedQueries(state),
            )
            self._server = _Server(self._config(build_app(dashboard, self.port)), lambda: started(self.address))
            self._server.should_exit = self._is_over.is_set()
            self._server.run([self._listener])

    def stop(self) -> None:
        """Ends ``run`` soon; from any thread."""
        self._is_over.set()
        if self._server is not None:
            self._server.should_exit = True

    def _config(self, app: ASGIApp) -> uvicorn.Config:
        return uvicorn.Config(
            app,
            http=partial(TimeoutProtocol, self._listener),  # type: ignore[arg-type]  # uvicorn calls it only
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # the client's address is that of the connection, never that of a header
            timeout_keep_alive=15,
            timeout_graceful_shutdown=_STOP_S,
            backlog=_ACCEPTED,
            h11_max_incomplete_event_size=32_768,
            ssl_certfile=self._settings.tls_certificate,
            ssl_keyfile=self._settings.tls_key,
        )


class _Server(uvicorn.Server):
    """A server that reports when it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_CONNECTIONS)  # the kernel queues those that come faster than they are accepted
        if self.started:
            self._on_start()


def _most_connections() -> int:
    """The maximum number of connections. Raises the process's limit of open files to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        with contextlib.suppress(ValueError, OSError):  # some systems have another limit below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, _FILES), hard))
            soft = min(hard, _FILES)
    return max(1, min(_CONNECTIONS, soft - _OWN_FILES))


def _listen(host: str, port: int) -> LimitedListener:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio switches Nagle's delay of 40 ms off only where it reads TCP there.
    listener = LimitedListener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as refused:
        listener.close()
        raise InvalidRequest(f"cannot listen on {host}:{port}: {refused.strerror}; choose another --port") from refused
    return listener
