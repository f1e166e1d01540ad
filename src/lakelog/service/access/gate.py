"""Logins with their limits, the end of sessions, and the audit lines of both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakelog.io.clock import monotonic_s, now_ms
from lakelog.service.access.sessions import Session, Sessions
from lakelog.service.access.throttle import Throttle, limited_address
from lakelog.service.access.users import TOKEN_USER, User, Users, is_token
from lakelog.service.terminal.audit import AuditEntry, AuditLog
from lakelog.sql.runtime.statement import Privilege

LOCAL: Final = "local"
DONE, REFUSED = "done", "refused"
_FAILURES: Final = 5
"""Maximum failed logins of one user from one address, or of one known browser, in 40 s."""
_FAILURES_WIDE: Final = 50
"""The same for all users of one address, and for one user from all addresses; without known browsers."""
_BEARER_FAILURES: Final = 20
_PROVEN_S: Final = 600.0
"""Seconds for which an address with a right token is not refused because of the guesses of others behind it."""
_HASHES: Final = 1
"""Number of passwords hashed at a time: each takes 64 MiB (Argon2id) and a core for about 50 ms, so a flood of logins
leaves memory and a core to pages."""
_HASHES_WAITING: Final = 64


@dataclass(frozen=True)
class Access:
    """The ways to log in: a users file, a token, or, without either, as the user who runs the server."""

    users: Users | None = None
    token: str | None = None
    behind_proxy: bool = False

    @property
    def needs_login(self) -> bool:
        """True if the user of this machine has to log in too."""
        return self.users is not None or self.token is not None


@dataclass(frozen=True)
class Refused:
    """A refused login: the status of the answer and one sentence."""

    status: int
    why: str


class Gate:
    """Logins and their sessions. ``ended`` is called with the key of each session that ends.

    Attempts are counted before a password is checked, so that parallel ones count too. The limits are per user and
    address: guesses at one user lock out neither others behind the same address, nor the user in a browser from which
    that user has logged in before.
    """

    def __init__(self, access: Access, audit: AuditLog, ended: Callable[[str], None], sessions: Sessions) -> None:
        self.access, self.sessions = access, sessions
        self._audit, self._ended = audit, ended
        self._throttle = Throttle()
        self._hashing = asyncio.Semaphore(_HASHES)
        self._waiting = 0
        self._proven: dict[str, float] = {}

    async def log_in(
        self, user: str, password: str, address: str, browser: str = "", agent: str = ""
    ) -> tuple[str, Session] | Refused:
        """A new session with its secret, or the refusal. An empty ``user`` logs in with the token.

        ``browser`` is the id of a browser from which the user has logged in before.
        """
        name = user or TOKEN_USER
        network = limited_address(address)
        source = f"browser {browser}" if browser else f"login {name} {network}"
        limits = {source: _FAILURES}
        if not browser:
            limits |= {f"address {network}": _FAILURES_WIDE, f"user {name}": _FAILURES_WIDE}
        wait = self._throttle.take(limits)
        if wait > 0:
            if self._throttle.take({f"noted {source}": 1}) == 0:  # one line per window: a flood must not fill the log
                self.note("login", name, None, address, REFUSED, "TooManyAttempts")
            return Refused(429, f"too many failed logins: try again in {wait:.0f} s")
        if self._waiting >= _HASHES_WAITING:
            self._throttle.give_back(limits)
            return Refused(503, "too many logins at a time: try again in a few seconds")
        account = await self._found(user, password)
        if account is None:
            self.note("login", name, None, address, REFUSED, "WrongPassword")
            return Refused(401, "Wrong user or password." if self.access.users is not None else "Wrong token.")
        self._throttle.give_back(limits)
        self._throttle.forget(source)
        self.note("login", name, account.role, address)
        return self.begin(account, address, agent)

    def begin(self, user: User, address: str, agent: str = "") -> tuple[str, Session]:
        """A new session for an authenticated user, and its secret."""
        return self.sessions.begin(user.name, user.role, user.stamp, address, agent)

    def bearer(self, token: str, address: str) -> bool | Refused:
        """Checks a program's token. Guesses are limited per address; a program that works there is not locked out."""
        network, now = limited_address(address), monotonic_s()
        limits = {f"bearer {network}": _BEARER_FAILURES}
        is_over = self._throttle.wait_s(limits) > 0
        if is_over and now - self._proven.get(network, -_PROVEN_S) >= _PROVEN_S:
            return Refused(429, "too many wrong tokens: try again in a minute")
        if is_token(token, self.access.token):
            self._proven[network] = now
            return True
        if not is_over:
            self._throttle.take(limits)
            self.note("token", TOKEN_USER, None, address, REFUSED, "WrongToken")
        return False

    def check(self, session: Session) -> bool:
        """Checks that a session is valid; ends that of a user who was removed, or has a new password or role."""
        if self.access.users is None or session.user == TOKEN_USER:
            return True
        user = self.access.users.read().get(session.user)
        if user is not None and user.stamp == session.stamp:
            return True
        self.end(session.key, "removed" if user is None else "password or role changed")
        return False

    def end(self, key: str, why: str, by: str = "") -> bool:
        """Ends a session at once, with its terminal and streams; returns False if there was none."""
        session = self.sessions.end(key)
        if session is None:
            return False
        self.note(f"session {key} ended: {why}" + (f" by {by}" if by else ""), session.user, session.role, "")
        # a terminal may take seconds to end; the request does not wait for it
        threading.Thread(target=self._ended, args=(key,), name="end session", daemon=True).start()
        return True

    def sweep(self) -> None:
        """Ends unused and old sessions. Called periodically."""
        for session in self.sessions.over():
            self.end(session.key, "expired")

    def note(
        self, what: str, user: str, role: Privilege | None, address: str, outcome: str = DONE, error: str | None = None
    ) -> None:
        """Writes an audit line about a login or session."""
        role_word = "" if role is None else role.word
        self._audit.append(
            AuditEntry(now_ms(), user, role_word, "", "", what, outcome, error, kind="access", address=address)
        )

    async def _found(self, user: str, password: str) -> User | None:
        users = self.access.users
        if not user or users is None:
            return User(TOKEN_USER, Privilege.ADMIN, "") if is_token(password, self.access.token) else None
        self._waiting += 1
        try:
            async with self._hashing:
                return await asyncio.to_thread(users.check, user, password)
        finally:
            self._waiting -= 1
