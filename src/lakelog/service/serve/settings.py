"""The settings of ``lakelog serve``, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakelog.service.loopback import LOOPBACK, check_listener

PORT: Final = 1631


@dataclass(frozen=True)
class ServeLimits:
    """What one server gives away at a time.

    ``text_bytes`` of a statement. ``statement_s`` is the time until the next batch of a result. ``statements``,
    ``tails`` and ``writes`` run at a time; one more waits ``wait_s`` and is then refused.
    """

    text_bytes: int = 1 << 20
    statement_s: float = 300.0
    statements: int = 8
    tails: int = 64
    writes: int = 64
    wait_s: float = 5.0
    batch_rows: int = 65_536
    batch_bytes: int = 64 << 20


@dataclass(frozen=True)
class ServeSettings:
    """The settings of a server.

    ``catalogs`` are additional catalogs by name, as in ``lakelog.connect``. ``users_file`` and ``token`` are the ways
    to log in. Without either, only the user who runs the server has access, from this machine. ``tls_client_ca`` is
    the authority whose certificates clients need. ``state`` is the directory of the audit log.
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
    tls_client_ca: Path | None = None
    state: Path = Path("~/.local/state/lakelog")
    limits: ServeLimits = field(default_factory=ServeLimits)

    def check(self) -> None:
        """Raises InvalidRequest for an address other than loopback without a login or without TLS."""
        has_login = self.users_file is not None or self.token is not None
        check_listener(self.host, has_login, self.tls_certificate, self.tls_key)
