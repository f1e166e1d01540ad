"""The log protocol under a seeded scheduler: the real code of tasks, drivers, seals, healing, maintenance, expiry,
ALTER, RENAME, DROP and CREATE, and readers.

Only the edges are not real: storage, the broker, the file store and the clock are in memory (``simulated_*``), and give
way at every call. There a process may be killed, or stopped past its lease to go on as a zombie, or its answer is lost.
``protocol_checks`` says what must hold when all have ended. ``make simulate`` runs 100,000 schedules and replays one
(``make simulate ARGS="--seed 123"``).
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator

import pytest
from protocol_bugs import BUGS
from protocol_schedule import Outcome, simulate
from rich.console import Console
from simulate import replay, run_part, search
from simulated_log import Record
from simulated_table import (
    FIRST_UNALIGNED,
    FIRST_WITH_REPLACEMENTS,
    FIRST_WITH_ROLLBACKS,
    FIRST_WITH_WAITING,
    Case,
    case_of,
)

from depth import Depth

EVENTS = {
    "ALTER … RENAME COLUMN",
    "ALTER … RENAME COLUMN, a swap",
    "ALTER … RENAME COLUMN, and another column takes the name",
    "ALTER … SET",
    "CREATE of a name that was used",
    "CommitUnknown",
    "DROP",
    "RENAME",
    "TableReplaced",
    "Unavailable",
    "expired snapshots",
    "kills",
    "lost answers",
    "lost snapshot races",
    "new checkpoints",
    "older checkpoints",
    "speculative attempts",
    "stopped",
    "stopped past the lease",
}
EVENTS_OF_REPLACEMENTS = {
    "compactions",
    "replacements",
    "replacements, failed",
    "replacements, unknown",
}
SLOW = pytest.mark.slow
SOON = ("skip-healing", "offset-too-high", "own-rows-only", "replacement-shown-twice")
"""Bugs that the first few schedules find."""

RARE = {"accept-fenced": (Case("all", False, "arrow"), 6_600)}
"""Bugs that one schedule in some thousands shows: the kind of table that shows them, the seed to start at."""

STARTS = {"closed-writers-unknown": FIRST_WITH_REPLACEMENTS + 503_100, "columns-forgotten": 340, "state-expires": 1_580}
"""Bugs that one schedule in hundreds shows: the first seed that is tried."""


@pytest.mark.parametrize("first", range(0, 400, 200))
def test_all_readings_are_one_table_whatever_dies(first: int, depth: Depth) -> None:
    found = run_part(depth.seeds(200, first, 900_000), None)
    assert found.wrong == ()
    assert not depth.is_whole or {name for name, times in found.events.items() if times} >= EVENTS


def test_buckets_that_are_no_log_partitions_change_nothing(depth: Depth) -> None:
    assert run_part(depth.seeds(100, FIRST_UNALIGNED, 900_000), None).wrong == ()


def test_replacements_of_rows_have_an_order_whatever_dies(depth: Depth) -> None:
    found = run_part(depth.seeds(100, FIRST_WITH_REPLACEMENTS, 900_000), None)
    assert found.wrong == ()
    assert not depth.is_whole or {name for name, times in found.events.items() if times} >= EVENTS_OF_REPLACEMENTS


def test_commits_of_an_open_writer_that_share_a_snapshot_are_there_at_once_whatever_dies(depth: Depth) -> None:
    assert run_part(depth.seeds(100, FIRST_WITH_WAITING, 900_000), None).wrong == ()


def test_rollbacks_lose_and_double_no_row_whatever_dies(depth: Depth) -> None:
    found = run_part(depth.seeds(100, FIRST_WITH_ROLLBACKS, 900_000), None)
    assert found.wrong == ()
    assert not depth.is_whole or min(found.events["rollbacks"], found.events["rollbacks that failed"]) > 0


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in SOON else SLOW) for name in BUGS])
def test_a_planted_bug_is_found(name: str) -> None:
    assert any(run_part(seeds, name).wrong for seeds in seeds_for(name))


def seeds_for(name: str) -> Iterator[range]:
    """The seeds, in parts, among which a planted bug must be found."""
    if name in RARE:
        case, start = RARE[name]
        yield from (range(seed, seed + 1) for seed in range(start, start + 12_000) if case_of(seed) == case)
        return
    kinds = {"replacement": FIRST_WITH_REPLACEMENTS, "rollback": FIRST_WITH_ROLLBACKS}
    first = STARTS.get(name, kinds.get(name.partition("-")[0], 0))
    yield from (range(part, part + 20) for part in range(first, first + 2_400, 20))


def logs_of(outcome: Outcome) -> list[list[list[Record]]]:
    return [table.log.buckets for table in outcome.world.tables]


@pytest.mark.parametrize("seed", [3_510_376, 4_000_987, 6_000_058, 6_002_133])
def test_schedules_that_were_wrong_hold(seed: int) -> None:
    assert run_part(range(seed, seed + 1), None).wrong == ()


def test_a_seed_is_the_same_schedule_each_time() -> None:
    first, again = simulate(123), simulate(123)
    assert (logs_of(first), first.steps) == (logs_of(again), again.steps)
    assert first.events == again.events
    assert logs_of(simulate(134)) != logs_of(first)


def test_a_schedule_is_replayed_and_printed() -> None:
    shown = Console(file=io.StringIO(), width=200)
    assert replay(123, None, shown) == 0
    assert "all invariants hold" in shown.file.getvalue()  # type: ignore[attr-defined]


@SLOW
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
