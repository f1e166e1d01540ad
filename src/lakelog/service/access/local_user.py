"""The user at the other end of a loopback connection, by the kernel."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_SOCK_DIAG: Final = 4
"""NETLINK_SOCK_DIAG, which Python's ``socket`` does not define."""
_BY_FAMILY: Final = 20
_HEAD, _ENDS, _REST = struct.Struct("=IHHII"), struct.Struct("!HH16s16s"), struct.Struct("=III")
_OWNER_AT: Final = 16 + 4 + 48 + 12
"""Offset of the socket's user, and then its inode, in an ``inet_diag_msg`` after its header."""

Address = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]


def is_same_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Checks the owner of the client's end of a loopback connection; False if the system does not report it.

    Called for each request of the user ``local``. The kernel (Linux) reports the user of each socket, so other users of
    this machine, and containers whose ports root forwards, need a token. A socket that its process has closed has no
    owner (the kernel reports root), and belongs to nobody.
    """
    try:
        ends = (ipaddress.ip_address(client[0]), client[1]), (ipaddress.ip_address(server[0]), server[1])
    except ValueError:
        return False
    if not (ends[0][0].is_loopback and ends[1][0].is_loopback):
        return False
    try:
        owner = _asked(*ends)
    except (AttributeError, OSError):  # a system without sock_diag
        owner = _listed(*ends)
    return owner is not None and owner[0] == os.geteuid() and owner[1] != 0


def _asked(client: Address, server: Address) -> tuple[int, int] | None:
    """User and inode of a socket from the kernel's lookup (sock_diag(7)), independent of the number of sockets."""
    family = socket.AF_INET if client[0].version == 4 else socket.AF_INET6
    ends = _ENDS.pack(client[1], server[1], *(end[0].packed.ljust(16, b"\0") for end in (client, server)))
    any_one = 0xFFFFFFFF
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, any_one) + ends + _REST.pack(0, any_one, any_one)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.send(_HEAD.pack(_HEAD.size + len(request), _BY_FAMILY, 1, 1, 0) + request)
        answer = kernel.recv(8_192)
    if _HEAD.unpack_from(answer)[1] == _BY_FAMILY:
        owner: tuple[int, int] = struct.unpack_from("=II", answer, _OWNER_AT)
        return owner
    return _listed(client, server)  # no such socket, or the kernel lacks the module for the lookup


def _listed(client: Address, server: Address) -> tuple[int, int] | None:
    """User and inode of a socket from the tables of all sockets."""
    ends = _written(*client), _written(*server)
    for table in _TABLES:
        try:
            text = table.read_text()
        except OSError:
            continue
        at = text.find(f": {ends[0]} {ends[1]} ")
        if at >= 0:
            fields = text[at + 1 :].split(maxsplit=9)
            return int(fields[6]), int(fields[8])
    return None


def _written(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    """An address in the kernel's format: each 32-bit word in the machine's byte order, in hex."""
    packed = address.packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return f"{b''.join(words).hex().upper()}:{port:04X}"
