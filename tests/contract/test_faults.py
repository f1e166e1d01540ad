"""The twin that fails on demand does what its plan says, so that tests which use it show what they claim."""

from __future__ import annotations

import uuid

import pytest

from faults import (
    DIE_AFTER,
    DIE_BEFORE,
    FAIL_AFTER,
    FAIL_BEFORE,
    LATE,
    LOST,
    LOST_REQUEST,
    Died,
    FaultPlan,
    FaultyFileIO,
    crash_points,
)
from lakelog.errors import CommitUnknown, Unavailable
from lakelog.io.storage.memory import MemoryFileIO


def faulty(plan: FaultPlan) -> FaultyFileIO:
    return FaultyFileIO(MemoryFileIO(uuid.uuid4().hex), plan)


def test_calls_that_change_something_have_numbers_and_names() -> None:
    io = faulty(FaultPlan())
    io.create("/t/a", b"1")
    io.read("/t/a")
    with io.open_output("/t/b") as sink:
        sink.write(b"22")
    io.delete("/t/a")
    assert [(c.number, c.name, c.path) for c in io.plan.calls] == [
        (1, "create", "/t/a"),
        (2, "open_output", "/t/b"),
        (3, "close_output", "/t/b"),
        (4, "delete", "/t/a"),
    ]
    assert len(list(crash_points(io.plan.calls))) == 8
    assert io.read("/t/b") == b"22"


@pytest.mark.parametrize(
    ("kind", "error", "there"),
    [
        (DIE_BEFORE, Died, False),
        (DIE_AFTER, Died, True),
        (FAIL_BEFORE, Unavailable, False),
        (FAIL_AFTER, Unavailable, True),
        (LOST, CommitUnknown, True),
        (LOST_REQUEST, CommitUnknown, False),
        (LATE, CommitUnknown, False),
    ],
)
def test_a_create_goes_wrong_as_planned(kind: str, error: type[BaseException], there: bool) -> None:
    io = faulty(FaultPlan({1: kind}))
    with pytest.raises(error):
        io.create("/t/a", b"1")
    assert io.inner.exists("/t/a") is there
    assert io.plan.hit


def test_the_dead_make_no_calls_and_finish_no_files() -> None:
    io = faulty(FaultPlan({2: DIE_BEFORE}))
    with pytest.raises(Died):
        try:
            with io.open_output("/t/a") as sink:
                sink.write(b"1")
        finally:
            io.delete("/t/other")
    del sink
    assert io.inner.list("/t") == []
    with pytest.raises(Died):
        io.read("/t/a")


def test_a_stale_listing_lacks_the_last_changes() -> None:
    io = faulty(FaultPlan(stale=2))
    for name in "abc":
        io.create(f"/t/{name}", b"1")
    assert [s.name for s in io.list("/t")] == ["a"]
    io.delete("/t/a")
    assert [s.name for s in io.list("/t")] == ["a", "b"]
    io.delete_dir("/t")
    assert [s.name for s in io.list("/t")] == ["b", "c"]
    assert not io.exists("/t/b")
