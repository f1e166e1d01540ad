"""The clock, the only source of time in lakelog."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from lakelog.io.names import random_fraction


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def local_now_ms() -> int:
    """The wall clock of this machine's zone, written as if it were UTC: the creation time of a data file."""
    local = datetime.now().replace(tzinfo=UTC)
    return int(local.timestamp() * 1000)


def local_now() -> datetime:
    """``local_now_ms`` as a time without a zone."""
    return datetime.fromtimestamp(local_now_ms() / 1000, UTC).replace(tzinfo=None)


def local_time(time_ms: int) -> datetime:
    """An instant (milliseconds since 1970-01-01 UTC) as wall clock of this machine's zone, without a zone."""
    return datetime.fromtimestamp(time_ms / 1000)


def instant_of_local(local_ms: int) -> int:
    """The instant (milliseconds since 1970-01-01 UTC) of a value of ``local_now_ms``."""
    return int(datetime.fromtimestamp(local_ms / 1000, UTC).replace(tzinfo=None).timestamp() * 1000)


def monotonic_s() -> float:
    """Seconds of a monotonic clock; only differences are meaningful."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Waits; returns immediately for a negative time."""
    time.sleep(max(0.0, seconds))


def pause(number: int, first_s: float, longest_s: float) -> None:
    """Waits before retry ``number``, counted from 0: twice as long each time, and never twice the same time."""
    sleep(min(longest_s, first_s * 2 ** min(number, 20)) * (0.5 + random_fraction()))


@dataclass(frozen=True)
class Moment:
    """A moment by two clocks: that of the day may be set, and the monotonic one stands still while a machine sleeps."""

    time_ms: int
    monotonic_s: float

    @staticmethod
    def now() -> Moment:
        """The present one."""
        return Moment(now_ms(), monotonic_s())

    def is_within(self, duration_ms: float) -> bool:
        """True if less than this has passed since, by both clocks."""
        return monotonic_s() - self.monotonic_s < duration_ms / 1000 and 0 <= now_ms() - self.time_ms < duration_ms


LONG_AGO: Final = Moment(0, float("-inf"))
