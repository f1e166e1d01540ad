"""The terminals of logged-in users: one per session, created at its first use."""

from __future__ import annotations

import threading
from collections import Counter

from lakelog.errors import InvalidRequest, NotFound
from lakelog.service.access.identity import Identity
from lakelog.service.dashboard.settings import DashboardSettings
from lakelog.service.terminal.audit import AuditLog
from lakelog.service.terminal.protocol.config import TerminalConfig
from lakelog.service.terminal.terminal import Terminal


class Terminals:
    """Terminals by the session of their user. Thread-safe."""

    def __init__(self, settings: DashboardSettings, audit: AuditLog) -> None:
        self.audit = audit
        self._settings = settings
        self._open: dict[str, Terminal] = {}
        self._lock = threading.Lock()

    def of(self, identity: Identity) -> Terminal | None:
        """The terminal of a user's session, None before the first statement."""
        return self._open.get(_key(identity))

    def need(self, identity: Identity) -> Terminal:
        """The same. Raises NotFound."""
        terminal = self.of(identity)
        if terminal is None:
            raise NotFound("no statement has run in this session")
        return terminal

    def open(self, identity: Identity) -> Terminal:
        """The terminal of a session, created if there is none. Raises InvalidRequest if too many are open."""
        with self._lock:
            terminal = self._open.get(_key(identity))
            if terminal is not None and terminal.config.role != identity.role:  # it was changed in the users file
                self._open.pop(_key(identity)).close()
                terminal = None
            if terminal is None:
                self._make_room(identity.user)
                terminal = self._open[_key(identity)] = Terminal(self._config(identity), self.audit)
            return terminal

    def close(self, identity: Identity) -> None:
        """Ends the terminal of a session with its running statements."""
        self.close_session(_key(identity))

    def close_session(self, key: str) -> None:
        """Ends the terminal of a session that has ended."""
        with self._lock:
            terminal = self._open.pop(key, None)
        if terminal is not None:
            terminal.close()

    def close_all(self) -> None:
        """Ends all terminals. Called when the server stops."""
        for key in list(self._open):
            self.close_session(key)

    def _make_room(self, user: str) -> None:
        """Ends an idle terminal if the limit is reached: of the user with most, the one that was idle longest.

        The last place is reserved for another user than the one who has all others.
        """
        most = self._settings.terminals
        counts = Counter(one.config.user for one in self._open.values())
        if len(self._open) < most and counts[user] < max(1, most - 1):
            return
        states = {key: one.state() for key, one in self._open.items()}
        idle = [key for key, state in states.items() if state.process != "busy" and not state.streams]
        if len(self._open) < most:  # the last place stays for others
            idle = [key for key in idle if self._open[key].config.user == user]
        if not idle:
            raise InvalidRequest(
                f"{len(self._open)} terminals run statements, {counts[user]} of them of user '{user}'; the limit is "
                f"{most}, and {max(1, most - 1)} for one user. Wait until one has ended, or start the dashboard with "
                "--terminals"
            )

        def order(key: str) -> tuple[bool, int, float]:
            return states[key].process == "none", counts[self._open[key].config.user], states[key].idle_s

        self._open.pop(max(idle, key=order)).close()

    def _config(self, identity: Identity) -> TerminalConfig:
        settings = self._settings
        return TerminalConfig(
            settings.warehouse,
            identity.role,
            identity.user,
            storage_options=settings.storage_options,
            catalog_options=settings.catalog_options,
            catalogs=settings.catalogs,
            allow_local_files=settings.allow_local_files,
        )


def _key(identity: Identity) -> str:
    return identity.session.key if identity.session else f"program {identity.user}"
