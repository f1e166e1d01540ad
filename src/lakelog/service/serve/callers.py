"""Who calls: the user of each request, by the gate that the dashboard has.

A program sends ``authorization: Bearer <token>``. A user logs in with name and password (``authorization: Basic``, in a
handshake), and gets a token of a session. Without users and token, the connection identifies the user who runs the
server.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from pyarrow import flight

from lakelog.service.access.gate import LOCAL, Access, Gate, Refused
from lakelog.service.access.identity import Identity
from lakelog.service.access.local_user import is_same_user
from lakelog.service.access.sessions import Sessions
from lakelog.service.access.users import TOKEN_USER
from lakelog.service.terminal.audit import AuditLog
from lakelog.sql.runtime.statement import Privilege

HEADERS: Final = "headers"
"""The name under which a call has its headers."""
_LOGIN_S: Final = 30.0

T = TypeVar("T")


class CallHeaders(flight.ServerMiddleware):  # type: ignore[misc]  # pyarrow has no types
    """The headers of one call, and the token that a handshake answers with."""

    def __init__(self, authorization: str, token: str = "") -> None:
        super().__init__()
        self.authorization, self._token = authorization, token

    def sending_headers(self) -> dict[str, str]:
        """The headers of the answer."""
        return {"authorization": f"Bearer {self._token}"} if self._token else {}


class NoTokens(flight.ServerAuthHandler):  # type: ignore[misc]  # pyarrow has no types
    """Flight's own handshake, which carries nothing here: users and tokens are in headers."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Answers a handshake."""

    def is_valid(self, token: bytes) -> bytes:
        """Nobody is identified here."""
        return b""


class Callers(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    """Identifies callers. The gate has a thread of its own, as it is for one thread."""

    def __init__(self, access: Access, audit: AuditLog, server: Callable[[], tuple[str, int]]) -> None:
        """``server`` is the address at which the server listens."""
        super().__init__()
        self._gate = Gate(access, audit, lambda key: None, Sessions())
        self._server = server
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="gate", daemon=True).start()

    def start_call(self, info: Any, headers: Mapping[str, Any]) -> CallHeaders:
        """Keeps the headers of a call; logs a user in for a handshake. Raises FlightUnauthenticatedError."""
        authorization = next(iter(headers.get("authorization", [])), "")
        if isinstance(authorization, bytes):
            authorization = authorization.decode("latin-1")
        if info.method != flight.FlightMethod.HANDSHAKE:
            return CallHeaders(authorization)
        user, password = _basic(authorization)
        outcome = self._run(self._gate.log_in("" if user == TOKEN_USER else user, password, ""))
        if isinstance(outcome, Refused):
            raise flight.FlightUnauthenticatedError(outcome.why)
        return CallHeaders(authorization, outcome[0])

    def identity(self, context: Any) -> Identity:
        """The user of a call. Raises FlightUnauthenticatedError."""
        gate, address = self._gate, _address(context.peer())
        scheme, _, token = context.get_middleware(HEADERS).authorization.partition(" ")
        if scheme.lower() == "bearer":
            session = gate.sessions.find(token)
            if session is not None and gate.check(session):
                return Identity(session.user, session.role, session)
            is_right = self._run(_called(gate.bearer, token.strip(), address[0]))
            if isinstance(is_right, Refused):
                raise flight.FlightUnauthenticatedError(is_right.why)
            if is_right:
                return Identity(TOKEN_USER, Privilege.ADMIN, None)
        elif not gate.access.needs_login and is_same_user(address, self._server()):
            return Identity(LOCAL, Privilege.ADMIN, None)
        raise flight.FlightUnauthenticatedError("log in, or send 'authorization: Bearer <token>'")

    def close(self) -> None:
        """Ends the thread of the gate."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_LOGIN_S)


async def _called(method: Callable[..., T], *arguments: Any) -> T:
    return method(*arguments)


def _basic(authorization: str) -> tuple[str, str]:
    scheme, _, text = authorization.partition(" ")
    try:
        if scheme.lower() == "basic":
            user, _, password = base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode().partition(":")
            return user, password
    except (binascii.Error, UnicodeDecodeError):
        pass
    raise flight.FlightUnauthenticatedError("a handshake needs 'authorization: Basic <user:password in base64>'")


def _address(peer: str) -> tuple[str, int]:
    """Address and port of a client in gRPC's writing: ``ipv4:127.0.0.1:4000``, ``ipv6:%5B::1%5D:4000``."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0
