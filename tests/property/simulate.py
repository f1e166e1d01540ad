"""Many schedules of the log protocol, on all cores: ``python tests/property/simulate.py`` (``make simulate``).

usage: simulate.py [--log] [--schedules N] [--first SEED] [--workers N] [--seed SEED] [--plant NAME]

Each seed is one schedule of streaming queries, batch jobs, changes of rows, maintenance with expiry, readers and owners
who alter, rename, drop and create the table. All of them run the real code on storage, log and file store in memory,
with deaths, pauses and lost answers; when all have ended, their history must have an order and all readings must be one
table. ``--seed`` replays one and prints what each process did. ``--plant`` puts a bug into the protocol, which must be
found. Seeds from 1,000,000 on (``--first 1000000``) have a log in files, which is the real one. Seeds from 2,000,000 on
have other log partitions than buckets. Seeds from 3,000,000 on have a table without a key, and statements that replace
rows in it, beside a log of input rows. Seeds from 4,000,000 on have a table that is rolled back meanwhile. Seeds
from 5,000,000 on have any of these tables, and commits of an open writer share a snapshot.

With ``--log`` a schedule is one of a log in files alone: appenders, readers and expiry with stalls, deaths, lost and
late answers, and writers that go on when their segment was deleted (``segment_simulation``). It has its own bugs.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
os.environ.setdefault("POLARS_MAX_THREADS", "1")  # the work of a schedule is too small to be shared

from protocol_bugs import BUGS
from protocol_checks import listing
from protocol_schedule import simulate
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from segment_bugs import LOG_BUGS
from segment_simulation import simulate_log

_PART = 100
"""Schedules that one process runs before it tells what it found."""

_LINE = 5_000
"""Schedules after which a line is printed where no bar can be drawn."""


@dataclass(frozen=True)
class Found:
    """What some schedules came to."""

    schedules: int
    steps: int
    events: Counter[str]
    wrong: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Replayed:
    """What one schedule came to; ``lines`` tell what happened in it."""

    steps: int
    events: Counter[str]
    wrong: tuple[str, ...]
    lines: tuple[str, ...]


def _of_table(seed: int, traced: bool) -> Replayed:
    found = simulate(seed, traced)
    world = found.world
    trace = world.scheduler.trace
    lines = () if trace is None else (*trace, "", *listing(world), f"seed {seed}: {world.case}")
    return Replayed(found.steps, found.events, found.wrong, lines)


def _of_log(seed: int, traced: bool) -> Replayed:
    found = simulate_log(seed, traced)
    return Replayed(found.steps, found.events, found.wrong, (*found.trace, f"seed {seed}"))


_SIMULATIONS = {"table": (_of_table, BUGS), "log": (_of_log, LOG_BUGS)}


def _simulate(seed: int, plant: str | None, kind: str, traced: bool = False) -> Replayed:
    run, bugs = _SIMULATIONS[kind]
    with contextlib.nullcontext() if plant is None else bugs[plant]():
        return run(seed, traced)


def run_part(seeds: range, plant: str | None, kind: str = "table") -> Found:
    """Runs the schedules of these seeds, of a ``table`` or of a ``log`` in files."""
    steps, events, wrong, before = 0, Counter[str](), [], logging.root.manager.disable
    logging.disable(logging.WARNING)  # of what goes wrong on purpose
    try:
        for seed in seeds:
            outcome = _simulate(seed, plant, kind)
            steps += outcome.steps
            events += outcome.events
            wrong += [(seed, text) for text in outcome.wrong]
    finally:
        logging.disable(before)
    return Found(len(seeds), steps, events, tuple(wrong))


def run_all(first: int, schedules: int, plant: str | None, workers: int, kind: str) -> Iterator[Found]:
    """Runs schedules on several cores; yields each part as it is done, in order of the seeds."""
    parts = [range(n, min(n + _PART, first + schedules)) for n in range(first, first + schedules, _PART)]
    # a forked process of one that has threads of Arrow or polars may wait for a lock for ever
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        try:
            yield from pool.map(run_part, parts, [plant] * len(parts), [kind] * len(parts))
        finally:
            pool.shutdown(cancel_futures=True)


def replay(seed: int, plant: str | None, console: Console, kind: str = "table") -> int:
    """Runs one schedule and prints what each process did, the log, and what is wrong."""
    outcome = _simulate(seed, plant, kind, traced=True)
    lines = [*outcome.lines]
    lines += [f"{outcome.steps} steps: " + ", ".join(f"{n} {name}" for name, n in sorted(outcome.events.items()))]
    console.print("\n".join([*lines, *(outcome.wrong or ["all invariants hold"])]), markup=False, highlight=False)
    return 1 if outcome.wrong else 0


def search(
    first: int, schedules: int, plant: str | None, console: Console, workers: int | None = None, kind: str = "table"
) -> int:
    """Runs many schedules with a progress bar, on all cores or on some, and prints what came of them."""
    started, total, workers = time.monotonic(), Found(0, 0, Counter(), ()), workers or os.cpu_count() or 1
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task(f"schedules on {workers} cores", total=schedules)
        for part in run_all(first, schedules, plant, workers, kind):
            events = total.events + part.events
            total = Found(total.schedules + part.schedules, total.steps + part.steps, events, total.wrong + part.wrong)
            progress.update(bar, completed=total.schedules)
            if not console.is_terminal and total.schedules % _LINE == 0:
                console.print(f"{total.schedules:,} of {schedules:,} in {time.monotonic() - started:.0f} s")
            for seed, text in part.wrong[:3]:
                progress.console.print(f"seed {seed}: {text}", markup=False, highlight=False)
            if plant is not None and total.wrong:
                break
    seconds = time.monotonic() - started
    events_text = ", ".join(f"{n:,} {name}" for name, n in sorted(total.events.items()))
    seeds = sorted({seed for seed, _ in total.wrong})
    console.print(
        f"{total.schedules:,} schedules, {total.steps:,} steps in {seconds:.0f} s on {workers} cores: {events_text}\n"
        f"{len(seeds)} wrong" + (f"; replay: --seed {seeds[0]}" if seeds else ""),
        markup=False,
        highlight=False,
    )
    if plant is None:
        return 1 if total.wrong else 0
    console.print(f"planted '{plant}': " + ("found" if total.wrong else "NOT FOUND"))
    return 0 if total.wrong else 1


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", action="store_true", help="only the log in files, with expiry of its segments")
    parser.add_argument("--schedules", type=int, default=100_000, help="how many (100000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--workers", type=int, help="how many cores it takes (all)")
    parser.add_argument("--seed", type=int, help="replay this schedule only")
    parser.add_argument("--plant", choices=sorted({*BUGS, *LOG_BUGS}), help="a bug that must be found")
    chosen = parser.parse_args()
    kind = "log" if chosen.log else "table"
    if chosen.plant is not None and chosen.plant not in _SIMULATIONS[kind][1]:
        parser.error(
            f"'{chosen.plant}' is a bug of the other simulation: " + ("omit --log" if chosen.log else "add --log")
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an ending that takes the other processes along
    console = Console(soft_wrap=True)
    if chosen.seed is not None:
        return replay(chosen.seed, chosen.plant, console, kind)
    return search(chosen.first, chosen.schedules, chosen.plant, console, chosen.workers, kind)


if __name__ == "__main__":
    sys.exit(main())
