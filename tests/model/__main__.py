"""Many histories, one process a core: counts them, and prints a script for each that goes wrong.

usage: make model ARGS="--seed 7 --histories 20000 --steps 30 --journal build/model.txt"

With a journal, a run that was ended goes on where it was. ``--log kafka`` draws tables with that log system.
``--leave-out`` names what histories do without, so that a fault that is found often does not hide others. The exit code
is 1 if one went wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from model.history import Given
from model.outcome import run


def finished(journal: Path | None) -> set[int]:
    """The seeds of an earlier run."""
    if journal is None or not journal.exists():
        return set()
    return {int(line.split()[0]) for line in journal.read_text().splitlines() if line[:1].isdigit()}


def main(given: Iterable[str]) -> int:
    """Runs the histories; returns the exit code."""
    parser = argparse.ArgumentParser(prog="model", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=30, help="steps of each history")
    parser.add_argument("--log", help="a log system that needs a server, whose options the environment gives")
    parser.add_argument(
        "--leave-out", action="append", default=[], help="an action, its way or type, a reading, or words of CREATE"
    )
    parser.add_argument("--often", action="append", default=[], help="an action to draw ten times as often")
    parser.add_argument("--journal", type=Path, help="file of the seeds that are done")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", type=float, default=60.0, help="maximum seconds to shorten a history")
    options = parser.parse_args(list(given))
    done = finished(options.journal)
    seeds = [seed for seed in range(options.seed, options.seed + options.histories) if seed not in done]
    given = Given(frozenset(options.leave_out), frozenset(options.often))
    work = partial(run, steps=options.steps, log=options.log, given=given, seconds=options.shrink)
    wrong, steps, cpu = 0, 0, 0.0
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes, maxtasksperchild=200) as pool:
        for number, outcome in enumerate(pool.imap_unordered(work, seeds), 1):
            steps, cpu = steps + outcome.steps, cpu + outcome.cpu_s
            if options.journal is not None:
                options.journal.parent.mkdir(parents=True, exist_ok=True)
                with options.journal.open("a") as file:
                    file.write(f"{outcome.seed} {outcome.words or 'held'}\n")
            if outcome.words:
                wrong += 1
                print(f"=== {outcome.words}\n{outcome.text}", flush=True)
            if number % 100 == 0:
                print(
                    f"--- {number:,} of {len(seeds):,} histories, {steps:,} steps, {cpu:,.0f} CPU s, {wrong} wrong",
                    flush=True,
                )
    print(f"{len(seeds):,} histories, {steps:,} steps, {cpu:,.0f} CPU s, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
