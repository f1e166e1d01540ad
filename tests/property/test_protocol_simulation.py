"""The whole protocol of RFC 2 under a seeded scheduler: tasks, drivers, crashes anywhere, zombies, two drivers at once.

The real header, format, planning and healing code (``heal`` itself) runs against a log that is a plain list. Every
process runs only while the scheduler lets it; it gives way at each record that it appends, each look at the log and
each durable step. There it may be killed, or left behind as a zombie that goes on after its successor has started. At
the end, when all is decided, the log must equal the files. Replay one schedule with ``simulate(seed, "all", True)``.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from protocol_schedule import Plan, simulate
from protocol_world import FORM

from lakelog.logstore.header import CORRECTION, DATA, decode_header
from lakelog.logstore.healing import Correction, Healing

CASES = [("all", True), ("all", False), ("upsert", True)]


@pytest.mark.parametrize("seeds", [range(350), range(350, 700)], ids=lambda seeds: f"from {seeds[0]}")
@pytest.mark.parametrize(("mode", "keyed"), CASES)
def test_the_log_ends_equal_to_the_decisions_whatever_dies(mode: str, keyed: bool, seeds: range) -> None:
    for seed in seeds:
        assert simulate(seed, mode, keyed) == [], f"seed {seed}"


def naive(healing: Healing, region: pa.Table) -> list[Correction]:
    """Takes back every refused row that no correction names; never looks at corrections themselves."""
    named, refused = set(), []
    for row in region.to_pylist():
        head = decode_header(row["header"], row["offset"])
        if head.writer != healing.writer:
            continue
        if head.kind == CORRECTION:
            named.add(head.ref)
        elif head.kind == DATA and head.attempt not in healing.accepted.get(head.epoch, frozenset()):
            refused.append((row, head))
    return [
        Correction(row["offset"], -1, head.epoch, head.attempt, row["key"], FORM.inverse(row["value"]))
        for row, head in reversed(refused)
        if row["offset"] not in named
    ]


def oldest_first(healing: Healing, region: pa.Table) -> list[Correction]:
    return Healing.plan(healing, region)[::-1]


def without_last_state(healing: Healing, region: pa.Table) -> list[Correction]:
    return Healing.plan(replace(healing, keyed=False, planner=Healing.plan), region)


def is_found(keyed: bool, plan: Plan = Healing.plan, since_error: int = 0) -> bool:
    return any(simulate(seed, "all", keyed, plan, since_error) for seed in range(100))


def without_fence(healing: Healing, region: pa.Table) -> list[Correction]:
    """A driver of the past takes the rows of later epochs for refused ones."""
    return Healing.plan(
        replace(healing, accepted={10**6: frozenset(), **healing.accepted}, planner=Healing.plan), region
    )


@pytest.mark.parametrize(
    ("bug", "keyed"), [(naive, False), (naive, True), (oldest_first, True), (without_last_state, True)]
)
def test_a_planted_bug_is_found(bug: Plan, keyed: bool) -> None:
    assert is_found(keyed, bug)


@pytest.mark.parametrize("error", [-1, 1])
def test_a_region_that_begins_one_record_off_is_found(error: int) -> None:
    assert is_found(False, since_error=error)


def test_a_driver_of_the_past_that_is_not_fenced_off_is_found() -> None:
    assert any(simulate(seed, "all", False, without_fence) for seed in range(600))
