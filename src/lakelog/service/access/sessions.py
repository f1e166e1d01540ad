"""The sessions of logged-in users, in memory. A session ends if it is revoked, unused or old, or at a restart."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from typing import Final

from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.names import new_secret
from lakelog.sql.runtime.statement import Privilege

_IDLE_S: Final = 8 * 3600.0
_LONGEST_S: Final = 7 * 24 * 3600.0
_MOST: Final = 10_000


@dataclass
class Session:
    """One login. Pages send ``csrf`` with each change. ``key`` names the session in lists and grants no access.

    ``stamp`` is that of the user's password and role at the login; ``address`` and ``agent`` are those of the client.
    """

    key: str
    user: str
    role: Privilege
    csrf: str
    since_ms: int
    born_s: float
    seen_s: float = field(default=0.0)
    seen_ms: int = 0
    stamp: str = ""
    address: str = ""
    agent: str = ""


class Sessions:
    """Sessions by the digest of their secret, which only the browser's cookie contains."""

    def __init__(self, idle_s: float = _IDLE_S) -> None:
        self.idle_s = idle_s
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def begin(
        self, user: str, role: Privilege, stamp: str = "", address: str = "", agent: str = ""
    ) -> tuple[str, Session]:
        """A new session and its secret, which is returned only once."""
        secret, now = new_secret(), monotonic_s()
        digest = _digest(secret)
        since = now_ms()
        session = Session(
            digest[:12], user, role, new_secret(), since, now, now, since, stamp, address[:64], agent[:200]
        )
        with self._lock:
            self._drop_old()
            self._sessions[digest] = session
        return secret, session

    def find(self, secret: str) -> Session | None:
        """The session of a secret, None without one; counts as use."""
        now = monotonic_s()
        with self._lock:
            session = self._sessions.get(_digest(secret))
            if session is None or self._is_over(session, now):
                return None
            session.seen_s, session.seen_ms = now, now_ms()
            return session

    def over(self) -> list[Session]:
        """The sessions that are too old, or unused for too long."""
        now = monotonic_s()
        with self._lock:
            return [session for session in self._sessions.values() if self._is_over(session, now)]

    def list(self) -> list[Session]:
        """The valid sessions, newest first."""
        now = monotonic_s()
        with self._lock:
            alive = [session for session in self._sessions.values() if not self._is_over(session, now)]
        return sorted(alive, key=lambda session: -session.since_ms)

    def end(self, key: str) -> Session | None:
        """Ends the session of this key and returns it; None if there was none."""
        with self._lock:
            stored = next((digest for digest, session in self._sessions.items() if session.key == key), None)
            return None if stored is None else self._sessions.pop(stored)

    def is_alive(self, key: str) -> bool:
        """True if the session of this key is valid; does not count as use."""
        now = monotonic_s()
        with self._lock:
            stored = next((session for session in self._sessions.values() if session.key == key), None)
        return stored is not None and not self._is_over(stored, now)

    def _is_over(self, session: Session, now: float) -> bool:
        return now - session.seen_s > self.idle_s or now - session.born_s > _LONGEST_S

    def _drop_old(self) -> None:
        """Makes room for one more session; those used last stay."""
        if len(self._sessions) >= _MOST:
            del self._sessions[min(self._sessions, key=lambda digest: self._sessions[digest].seen_s)]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
