"""The one clock: everything that asks for the time asks here."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def local_now_ms() -> int:
    """The wall clock of this machine's zone, written as if it were UTC: the creation time of a data file."""
    local = datetime.now().replace(tzinfo=UTC)
    return int(local.timestamp() * 1000)


def instant_of_local(local_ms: int) -> int:
    """The moment (milliseconds since 1970-01-01 UTC) at which ``local_now_ms`` has said this."""
    return int(datetime.fromtimestamp(local_ms / 1000, UTC).replace(tzinfo=None).timestamp() * 1000)


def monotonic_s() -> float:
    """Seconds of a clock that never goes back; only differences mean something."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Waits; a negative time is none."""
    time.sleep(max(0.0, seconds))
