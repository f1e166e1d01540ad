"""A time limit for a block of computation in the main thread of a process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from lakelog.errors import InvalidRequest


@contextmanager
def time_limit(seconds: float, why: str) -> Iterator[None]:
    """Raises InvalidRequest with ``why`` in a block that takes longer (wall-clock time). For the main thread only."""

    def end(*_: object) -> None:
        raise InvalidRequest(why)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
