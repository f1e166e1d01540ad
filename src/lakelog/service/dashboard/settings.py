"""Settings of a dashboard, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakelog.errors import InvalidRequest
from lakelog.service.loopback import LOOPBACK, check_listener, is_loopback

PORT: Final = 1630


@dataclass(frozen=True)
class DashboardSettings:
    """The settings of ``lakelog dashboard``.

    ``catalogs`` are additional catalogs by name, as in ``lakelog.connect``. ``users_file`` and ``token`` are the
    ways to log in. Without either, only the user who runs the server has access, from this machine. ``hosts`` are
    additional host names of the server. ``state`` is the directory of its own files (time series, the audit log,
    saved queries). ``terminals`` is the maximum number of open terminals.
    """

    warehouse: str
    host: str = LOOPBACK
    port: int = PORT
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    catalog_options: Mapping[str, str] = field(default_factory=dict)
    users_file: Path | None = None
    token: str | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    hosts: tuple[str, ...] = ()
    state: Path = Path("~/.local/state/lakelog")
    allow_local_files: bool = False
    terminals: int = 4

    @property
    def over_tls(self) -> bool:
        """True if browsers use TLS, directly or through a proxy."""
        return self.tls_certificate is not None or self.behind_proxy

    @property
    def scheme(self) -> str:
        """``https`` or ``http``, as seen by browsers."""
        return "https" if self.over_tls else "http"

    def check(self) -> None:
        """Raises InvalidRequest for unsafe settings: an address other than loopback without a login or without TLS."""
        if self.behind_proxy and self.users_file is None and self.token is None:
            raise InvalidRequest(
                "all users connect through the proxy, so --behind-proxy needs --users-file or --token-file"
            )
        has_login = self.users_file is not None or self.token is not None
        check_listener(self.host, has_login, self.tls_certificate, self.tls_key, self.behind_proxy)

    def own_hosts(self, port: int) -> tuple[str, ...]:
        """The accepted values of the ``Host`` header for this server on a port."""
        names = {self.host} | ({"localhost", LOOPBACK, "[::1]"} if is_loopback(self.host) else set())
        names |= {f"[{self.host}]"} if ":" in self.host else set()
        usual = {"https": 443, "http": 80}[self.scheme]
        hosts = {f"{name}:{port}" for name in names} | (names if port == usual else set())
        return tuple(sorted(hosts | set(self.hosts)))
