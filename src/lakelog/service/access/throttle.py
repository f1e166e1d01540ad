"""Limits on attempts: a maximum per time window, counted before the attempt."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from cachetools import LRUCache

from lakelog.io.clock import monotonic_s

_WINDOW_S: Final = 40.0
_KEYS: Final = 10_000
_IPV6_PREFIX: Final = 64
"""Bits of an IPv6 address that name a network. One subscriber chooses the others freely."""


class Throttle:
    """Counts attempts by key; a successful attempt is given back. For one thread (the event loop's)."""

    def __init__(self, window_s: float = _WINDOW_S, keys: int = _KEYS) -> None:
        self._window_s = window_s
        self._taken: LRUCache[str, deque[float]] = LRUCache(keys)

    def take(self, limits: Mapping[str, int]) -> float:
        """Counts one attempt under each key, or returns the seconds to wait if one of them has reached its limit."""
        wait = self.wait_s(limits)
        if wait > 0:
            return wait
        for key in limits:
            self._taken.setdefault(key, deque()).append(monotonic_s())
        return 0.0

    def wait_s(self, limits: Mapping[str, int]) -> float:
        """Seconds until all keys allow an attempt, 0 if they do."""
        now = monotonic_s()
        return max((self._wait_s(key, most, now) for key, most in limits.items()), default=0.0)

    def give_back(self, limits: Mapping[str, int]) -> None:
        """Removes the newest attempt of each key, because it was successful or not made."""
        for key in limits:
            if taken := self._taken.get(key):
                taken.pop()

    def forget(self, key: str) -> None:
        """Removes the attempts of a key."""
        self._taken.pop(key, None)

    def _wait_s(self, key: str, most: int, now: float) -> float:
        taken = self._taken.get(key, deque())
        while taken and now - taken[0] >= self._window_s:
            taken.popleft()
        return self._window_s - (now - taken[0]) if len(taken) >= most else 0.0


def limited_address(address: str) -> str:
    """The address under which attempts are counted: an IPv4 address, or the network of an IPv6 address.

    Other texts, such as the name of a socket, stay as they are.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ip_network((int(parsed), _IPV6_PREFIX), strict=False))
