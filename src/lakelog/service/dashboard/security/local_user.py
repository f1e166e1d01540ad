"""Whether a connection on this machine was made by the user that runs the server."""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def is_same_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Looks up the owner of the client's end of a loopback connection; False where the system does not tell.

    Called for each request of the user ``local``. The kernel's tables (Linux) name the user of each socket, so that
    other users of this machine, and containers whose ports are forwarded by root, need a token.
    """
    try:
        if not (ipaddress.ip_address(client[0]).is_loopback and ipaddress.ip_address(server[0]).is_loopback):
            return False
        ends = _written(*client), _written(*server)
    except ValueError:
        return False
    for table in _TABLES:
        try:
            text = table.read_text()
        except OSError:
            continue
        at = text.find(f": {ends[0]} {ends[1]} ")
        if at >= 0:
            return int(text[at + 1 :].split(maxsplit=7)[6]) == os.geteuid()
    return False


def _written(address: str, port: int) -> str:
    """An end as the kernel writes it: each 32-bit word of the address in the machine's byte order, in hex."""
    packed = ipaddress.ip_address(address).packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return f"{b''.join(words).hex().upper()}:{port:04X}"
