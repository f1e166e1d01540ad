"""Clock, names, machine."""

from __future__ import annotations

import re
import time

import pytest

from lakelog.io import clock
from lakelog.io.machine import machine_identity
from lakelog.io.names import new_attempt, new_uuid, random_fraction


def test_names_are_new_each_time() -> None:
    assert len({new_uuid() for _ in range(100)} | {new_attempt() for _ in range(100)}) == 200
    assert re.fullmatch(r"[0-9a-f]{16}", new_attempt())
    assert 0 <= random_fraction() < 1


def test_the_local_time_differs_from_utc_by_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert round((clock.local_now_ms() - clock.now_ms()) / 3_600_000) == 9
        assert abs(clock.instant_of_local(clock.local_now_ms()) - clock.now_ms()) < 60_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_negative_wait_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"waits {seconds} s") if seconds > 0 else None)
    clock.sleep(-5)


def test_the_machine_is_the_same_when_asked_twice() -> None:
    assert machine_identity() == machine_identity()
    assert "/" in machine_identity()
