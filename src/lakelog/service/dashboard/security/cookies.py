"""The cookies of one server: that of the session, and that of a browser from which a user has logged in before."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from lakelog.io.names import new_secret

_A_MONTH_S: Final = 30 * 24 * 3600


@dataclass(frozen=True)
class Cookies:
    """Names and values of cookies. Browsers send a cookie to every port of a host, so the names contain the port.

    With the prefix ``__Host-`` over TLS, browsers refuse them from another host, from a subdomain and from plain HTTP.
    """

    port: int
    over_tls: bool
    _key: bytes = field(default_factory=lambda: new_secret().encode(), repr=False)

    @property
    def session(self) -> str:
        """Name of the session's cookie."""
        return self._name("session")

    @property
    def browser(self) -> str:
        """Name of the cookie of a known browser."""
        return self._name("browser")

    def read(self, header: str, name: str) -> str:
        """The value of a cookie in a request's ``Cookie`` header, empty without it."""
        pairs = (part.strip().partition("=") for part in header.split(";"))
        return next((value for key, _, value in pairs if key == name), "")

    def begin_session(self, secret: str) -> str:
        """``Set-Cookie`` of a session: hidden from scripts and other sites, and valid until the browser closes."""
        return self._set(self.session, secret)

    def end_session(self) -> str:
        """``Set-Cookie`` that removes it."""
        return self._set(self.session, "", "Max-Age=0")

    def mark_browser(self, user: str) -> str:
        """``Set-Cookie`` that proves, until this server restarts, that a user has logged in from this browser."""
        number = new_secret()
        return self._set(self.browser, f"{number}.{self._signed(number, user)}", f"Max-Age={_A_MONTH_S}")

    def known_browser(self, header: str, user: str) -> str:
        """The id of a browser from which this user has logged in before, empty for any other."""
        number, _, signature = self.read(header, self.browser).partition(".")
        is_known = hmac.compare_digest(signature.encode(), self._signed(number, user).encode())
        return number if is_known else ""

    def _signed(self, number: str, user: str) -> str:
        return hmac.new(self._key, f"{number} {user}".encode(), hashlib.sha256).hexdigest()

    def _name(self, what: str) -> str:
        return f"{'__Host-' if self.over_tls else ''}lakelog_{what}_{self.port}"

    def _set(self, name: str, value: str, more: str = "") -> str:
        parts = [f"{name}={value}", "Path=/", "HttpOnly", "SameSite=Strict"]
        return "; ".join([*parts, *(["Secure"] if self.over_tls else []), *([more] if more else [])])
