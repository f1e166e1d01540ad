"""Loopback addresses, on which a service may listen without a login."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """True for an address that only this machine reaches, or the name ``localhost``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
