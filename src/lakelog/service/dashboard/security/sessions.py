"""Who is logged in. Kept in the server's memory: a session ends when it is revoked, unused, old, or at a restart."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from typing import Final

from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.names import new_secret
from lakelog.sql.right import Right

_IDLE_S: Final = 8 * 3600.0
_LONGEST_S: Final = 7 * 24 * 3600.0
_MOST: Final = 10_000


@dataclass
class Session:
    """One login. ``csrf`` goes with each change of its pages; ``key`` names it in lists, and opens nothing."""

    key: str
    user: str
    role: Right
    csrf: str
    since_ms: int
    born_s: float
    seen_s: float = field(default=0.0)


class Sessions:
    """Sessions by the digest of their secret; the secret itself is only in the browser's cookie."""

    def __init__(self, idle_s: float = _IDLE_S) -> None:
        self.idle_s = idle_s
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def begin(self, user: str, role: Right) -> tuple[str, Session]:
        """A new session and its secret, which is told only once."""
        secret, now = new_secret(), monotonic_s()
        digest = _digest(secret)
        session = Session(digest[:12], user, role, new_secret(), now_ms(), now, now)
        with self._lock:
            self._drop_old(now)
            self._sessions[digest] = session
        return secret, session

    def find(self, secret: str) -> Session | None:
        """The session of a secret, None when there is none any more; counts as use."""
        now = monotonic_s()
        with self._lock:
            session = self._sessions.get(_digest(secret))
            if session is None or self._is_over(session, now):
                return None
            session.seen_s = now
            return session

    def list(self) -> list[Session]:
        """The sessions that are alive, the newest first."""
        now = monotonic_s()
        with self._lock:
            alive = [session for session in self._sessions.values() if not self._is_over(session, now)]
        return sorted(alive, key=lambda session: -session.since_ms)

    def end(self, key: str) -> bool:
        """Ends the session of this key; whether there was one."""
        with self._lock:
            found = [digest for digest, session in self._sessions.items() if session.key == key]
            for digest in found:
                del self._sessions[digest]
        return bool(found)

    def _is_over(self, session: Session, now: float) -> bool:
        return now - session.seen_s > self.idle_s or now - session.born_s > _LONGEST_S

    def _drop_old(self, now: float) -> None:
        over = [digest for digest, session in self._sessions.items() if self._is_over(session, now)]
        alive = sorted(self._sessions.items(), key=lambda item: item[1].seen_s)
        over += [digest for digest, _ in alive[: max(0, len(alive) + 1 - _MOST)]]
        for digest in over:
            self._sessions.pop(digest, None)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
