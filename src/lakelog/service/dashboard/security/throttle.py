"""How often a login may fail."""

from __future__ import annotations

from collections import deque
from typing import Final

from lakelog.io.clock import monotonic_s

_FAILURES: Final = 5
_WINDOW_S: Final = 40.0
_ADDRESSES: Final = 10_000


class Throttle:
    """Five failures in 40 seconds from one address, or fifty from all, and further tries are refused for a while.

    The second limit is for a guesser with many addresses; users who are logged in do not notice it.
    """

    def __init__(self, failures: int = _FAILURES, window_s: float = _WINDOW_S) -> None:
        self._most, self._window_s = failures, window_s
        self._failed: dict[str, deque[float]] = {}
        self._all: deque[float] = deque()

    def wait_s(self, address: str) -> float:
        """Seconds until this address may try again, 0 when it may now."""
        now = monotonic_s()
        own = self._recent(self._failed.get(address, deque()), now)
        every = self._recent(self._all, now)
        waits = [self._window_s - (now - own[0])] if len(own) >= self._most else []
        waits += [self._window_s - (now - every[0])] if len(every) >= 10 * self._most else []
        return max(waits, default=0.0)

    def failed(self, address: str) -> None:
        """Notes a failure."""
        now = monotonic_s()
        if len(self._failed) >= _ADDRESSES:
            self._failed = {a: times for a, times in self._failed.items() if self._recent(times, now)}
        self._failed.setdefault(address, deque(maxlen=self._most)).append(now)
        self._all.append(now)

    def succeeded(self, address: str) -> None:
        """Forgets the failures of an address."""
        self._failed.pop(address, None)

    def _recent(self, times: deque[float], now: float) -> deque[float]:
        while times and now - times[0] >= self._window_s:
            times.popleft()
        return times
