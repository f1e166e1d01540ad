"""The log in files under a seeded scheduler: the real appenders, readers and expiry (RFC 15).

Only storage and clocks are not real (``segment_storage``, ``segment_clock``). A request may take longer than the code
waits for anything, its answer may be lost, its process may die. A writer may be suspended until the segment that it is
about to create was created by another and deleted. ``segment_history`` says what clients must never be told.
``make simulate ARGS=--log`` runs 100,000 schedules, and replays one (``make simulate ARGS="--log --seed 3"``).
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from segment_bugs import LOG_BUGS
from segment_history import ACKNOWLEDGED, History
from segment_simulation import simulate_log
from simulate import replay, run_part

from depth import Depth

EVENTS = {
    "appends without a known outcome",
    "deleted segments",
    "expiries",
    "kills",
    "late answers",
    "late effects",
    "lost answers",
    "re-created numbers",
    "reads of a zombie's segment",
    "refused requests",
    "resumed zombies",
    "stalls",
}
MOST_SCHEDULES = 3_000
"""Schedules in which each planted bug must be found; most are found in the first hundred."""
RARE = {"recent-as-its-answer": 600}
"""Bugs that one schedule in some thousands shows: the seed to start at."""


def test_a_record_of_the_log_is_the_same_for_all_whatever_expires(depth: Depth) -> None:
    found = run_part(depth.seeds(1_000), None, "log")
    assert found.wrong == ()
    assert not depth.is_whole or {name for name, times in found.events.items() if times} >= EVENTS


def test_a_log_that_was_never_written_has_no_segment_to_expire() -> None:
    """A schedule in which only an expirer ran."""
    assert simulate_log(332415, traced=False).wrong == ()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 20_000, 2_500))
def test_many_more_schedules(first: int, depth: Depth) -> None:
    assert run_part(depth.seeds(2_500, first, 1_000_000), None, "log").wrong == ()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in RARE else ()) for name in LOG_BUGS]
)
def test_a_planted_bug_of_the_log_is_found(name: str) -> None:
    first = RARE.get(name, 0)
    assert any(run_part(range(n, n + 10), name, "log").wrong for n in range(first, first + MOST_SCHEDULES, 10))


def test_a_seed_is_the_same_schedule_of_the_log_each_time() -> None:
    first, again, other = simulate_log(3, traced=True), simulate_log(3, traced=True), simulate_log(4)
    assert first == again and first.trace
    assert (first.steps, first.events) != (other.steps, other.events)


def test_a_schedule_of_the_log_is_replayed_and_printed() -> None:
    shown = Console(file=io.StringIO(), width=200)
    assert replay(3, None, shown, "log") == 0
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert "all invariants hold" in text and "writer 0" in text


def test_a_history_that_no_log_explains_is_wrong() -> None:
    told = {
        "lost": [(0, b"0"), (1, b"1"), (2, b"2")],
        "twice": [(0, b"0"), (1, b"0"), (2, b"1")],
        "another": [(0, b"1"), (1, b"0"), (2, b"2")],
    }
    for wrong in told.values():
        history = History(1)
        values = [history.new_record(0, 0) for _ in range(4)]
        history.acknowledged("a writer", 0, range(4), values)
        assert {record.outcome for record in history.appended.values()} == {ACKNOWLEDGED}
        history.read("a reader", 0, 0, [offset for offset, _ in wrong], [value for _, value in wrong])
        history.check_rest({0: 0}, {0: [value for _, value in wrong]})
        assert history.wrong
    assert not History(1).wrong
