"""The whole protocol of RFC 2 under a seeded scheduler: tasks, drivers, readers, crashes anywhere, zombies, restarts.

The real header, format, planning and healing code (``heal`` itself) runs against a log that is a plain list. Every
process runs only while the scheduler lets it; it gives way at each record that it appends, each look at the log and
each durable step. There it may be killed, or left behind as a zombie that goes on after its successor has started. What
must hold is looked at after every step (``protocol_readers``). ``make simulate`` runs 100,000 schedules and replays
one (``make simulate ARGS="--seed 123"``).
"""

from __future__ import annotations

import io
from collections import Counter

import pytest
from protocol_bugs import BUGS
from protocol_schedule import simulate
from rich.console import Console
from simulate import replay, run_part, search

EVENTS = {
    "broker failures",
    "deaths",
    "deaths behind a snapshot",
    "epochs told for others",
    "fenced drivers",
    "looks at rest",
    "lost seals",
    "new checkpoints",
    "older checkpoints",
    "readers",
    "speculative attempts",
}


@pytest.mark.parametrize("first", range(0, 600, 300))
def test_log_and_files_are_one_table_whatever_dies(first: int) -> None:
    found = run_part(range(first, first + 300), None)
    assert found.wrong == ()
    assert {name for name, times in found.events.items() if times} == EVENTS


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    assert any(simulate(seed, BUGS[name]).wrong for seed in range(600))


def test_a_seed_is_the_same_schedule_each_time() -> None:
    first, again = simulate(123), simulate(123)
    assert (first.world.log, first.steps, first.events) == (again.world.log, again.steps, again.events)
    assert simulate(124).world.log != first.world.log


def test_a_schedule_is_replayed_and_printed() -> None:
    shown = Console(file=io.StringIO(), width=200)
    assert replay(123, None, shown) == 0
    assert "all invariants hold" in shown.file.getvalue()  # type: ignore[attr-defined]


def test_a_search_says_what_it_found() -> None:
    shown = Console(file=io.StringIO(), width=200)
    assert search(0, 100, None, shown) == 0
    assert search(0, 100, "skip-healing", shown) == 0
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert "100 schedules" in text and "0 wrong" in text and "planted 'skip-healing': found" in text


def test_the_parts_add_up_to_the_whole() -> None:
    whole, parts = run_part(range(20), None), [run_part(range(10), None), run_part(range(10, 20), None)]
    assert whole.steps == sum(part.steps for part in parts)
    assert whole.events == sum((part.events for part in parts), Counter())
