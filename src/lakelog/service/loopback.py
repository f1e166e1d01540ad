"""Loopback addresses, on which a service may listen without a login."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Final

from lakelog.errors import InvalidRequest

LOOPBACK: Final = "127.0.0.1"
"""Where a service listens by default."""


def is_loopback(host: str) -> bool:
    """True for an address that only this machine reaches, or the name ``localhost``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_listener(
    host: str, has_login: bool, certificate: Path | None, key: Path | None, behind_proxy: bool = False
) -> None:
    """Checks the address of a service that has users: any other than loopback needs a login and TLS.

    ``behind_proxy``: a proxy speaks TLS. Raises InvalidRequest.
    """
    if (certificate is None) != (key is None):
        raise InvalidRequest("--tls-certificate and --tls-key are required together")
    if is_loopback(host):
        return
    if not has_login:
        raise InvalidRequest(
            f"--host {host} accepts connections from other machines, so users must log in: give --users-file (lakelog "
            "users add NAME) or --token-file"
        )
    if certificate is None and not behind_proxy:
        raise InvalidRequest(
            f"--host {host} would send passwords unencrypted: give --tls-certificate and --tls-key, or --behind-proxy "
            "when a proxy speaks TLS"
        )
