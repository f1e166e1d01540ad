"""The address of a client."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

_IPV6_PREFIX: Final = 64
"""Bits of an IPv6 address that name a network. One subscriber chooses the others freely."""


def client_address(scope: Scope, behind_proxy: bool) -> str:
    """The client address of a request; behind a proxy, the address that the proxy has seen.

    That is the last entry of ``X-Forwarded-For``, which the proxy has written; earlier ones come from the client. Used
    for limits and the audit log, never for authentication.
    """
    client = scope.get("client")
    direct = client[0] if client else ""
    if not behind_proxy:
        return direct
    forwarded = ",".join(Headers(scope=scope).getlist("x-forwarded-for"))
    return forwarded.rpartition(",")[2].strip()[:64] or direct


def limited_address(address: str) -> str:
    """The address under which attempts are counted: an IPv4 address, or the network of an IPv6 address.

    Other texts, such as the name of a socket, stay as they are.
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or ip_network((int(found), _IPV6_PREFIX), strict=False))
