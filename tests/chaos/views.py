"""A run of materialized views: processes that write, refresh and check are killed and stopped while tables change.

Views are on three levels, and two processes refresh all of them.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chaos.journal import lines
from chaos.processes import Job, go_on
from chaos.view_clients import (
    CHECKED,
    FAILED,
    REFRESHED,
    SKIPPED,
    WRONG,
    WROTE,
    columns_of,
    compare_log,
    compare_snapshot,
    position_of,
)
from lakelog import Lake
from lakelog.errors import LakelogError
from view_world import HIGHER, SHAPES, ViewWorld, folded, sorted_rows

_LOOK_S: Final = 0.05
_TELL_S: Final = 10.0
_BEGIN_S: Final = 120.0
_END_S: Final = 300.0
"""How long processes may take to begin, and to bring all views to the newest rows once nothing is killed any more."""
_STOPS: Final = 0.35
"""Share of the times at which a process is stopped for some seconds and not killed."""
_INTERVAL: Final = "300 ms"
"""Of the snapshots of a view: some of its epochs wait for one."""


class World(ViewWorld):
    """Tables of a run, and views on three levels whose queries are drawn."""

    def create_views(self, number: int) -> None:
        """Creates ``v0`` and ``v1`` over tables, views over them, one above, and ``number`` others."""
        chosen = [SHAPES[2], SHAPES[13], *HIGHER[:3], "select count(*) as rows, sum(groups) as g from db.v2"]
        for query in (*chosen, *self.random.sample(SHAPES, number)):
            name = f"v{len(self.views)}"
            self.lake.sql(f"create materialized view db.{name} with ('commit.interval' = '{_INTERVAL}') as {query}")
            self.views[name] = query


@dataclass
class Views:
    """``run`` gives the results and ends all that it starts: ``seconds`` of kills and stops, then the rest in peace."""

    directory: Path
    seconds: float
    seed: int
    every_s: float
    report: Callable[[str], None]
    others: int = 4
    writers: int = 2
    jobs: dict[str, Job] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    _stopped: dict[int, float] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        """Starts, kills, stops, waits for the views, judges. Raises TimeoutError."""
        for name in ("journals", "numbers", "warehouse"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        world = World(self.directory / "warehouse", self.seed)
        for _ in range(5):
            world.act()
        world.create_views(self.others)
        try:
            self._start(world)
            self._wait_until(lambda: all(self._journal(job).exists() for job in self.jobs.values()), "begun", _BEGIN_S)
            self._rage()
            self.report("coming to rest")
            self._end(world)
        finally:
            for job in self.jobs.values():
                job.kill_all()
        wrong = [*self._found_wrong(), *_last_differences(world)]
        counts = self._tally()
        results = {
            "seed": self.seed,
            "views": len(world.views),
            **counts,
            "done": dict(self.done),
            "failures": {name: job.failures for name, job in self.jobs.items() if job.failures},
            "wrong": wrong,
            "equal": not wrong,
        }
        self.report("all views are their queries" if not wrong else "\n".join(f"WRONG {text}" for text in wrong))
        return results

    def _start(self, world: ViewWorld) -> None:
        settings = self.directory / "settings.json"
        given = {
            "warehouse": str(world.place),
            "directory": str(self.directory),
            "views": world.views,
            "seed": self.seed,
            "pause_s": 0.4,
        }
        settings.write_text(json.dumps(given), encoding="utf-8")
        roles = {f"writer{n}": "writer" for n in range(self.writers)}
        roles |= {"runner0": "runner", "runner1": "runner", "checker": "checker"}
        for name, role in roles.items():
            self.jobs[name] = Job(name, ["chaos.view_clients", role, name, str(settings)], self.directory)
            self.jobs[name].start()

    def _rage(self) -> None:
        dice = random.Random(self.seed)
        started, told, next_s = time.monotonic(), 0.0, self.every_s
        while (now := time.monotonic() - started) < self.seconds:
            if now >= next_s:
                next_s = now + 2 * self.every_s * dice.random()
                self._act(dice)
            self._go_on(time.monotonic())
            for job in self.jobs.values():
                job.keep_up()
            if now >= told:
                told = now + _TELL_S
                self._tell(now)
            time.sleep(_LOOK_S)

    def _act(self, dice: random.Random) -> None:
        weights = {name: {"runner": 4, "writer": 2}.get(name[:-1], 1) for name in self.jobs}
        job = self.jobs[dice.choices(list(weights), list(weights.values()))[0]]
        is_stop, for_s = dice.random() < _STOPS, 5 * dice.random()
        if job.leaders[-1] in self._stopped or not self._journal(job).exists():
            return
        self.done[f"{'stop' if is_stop else 'kill'} {job.role.rstrip('01')}"] += 1
        if is_stop:
            self._stopped[job.stop()] = time.monotonic() + for_s
        else:
            job.kill_newest()

    def _go_on(self, now: float) -> None:
        for leader in [leader for leader, until in self._stopped.items() if now >= until]:
            del self._stopped[leader]
            go_on(leader)

    def _end(self, world: ViewWorld) -> None:
        """Ends the writers, then waits until the runners have brought each view to the newest rows."""
        self._go_on(float("inf"))
        writers = [self.jobs[name] for name in self.jobs if name.startswith("writer")]
        for job in writers:
            job.tell("end")
        self._wait_until(lambda: _all_have_ended(writers), "come to their end", _END_S)
        for name in ("a", "b", "e"):
            world.lake.table(f"db.{name}").seal()
        others = [job for job in self.jobs.values() if job not in writers]

        def are_fresh() -> bool:
            for job in others:
                job.keep_up()
            return all(_is_fresh(world.lake, name) for name in world.views)

        self._wait_until(are_fresh, "refreshed all views", _END_S)
        for job in others:
            job.tell("end")
        self._wait_until(lambda: _all_have_ended(others), "come to their end", _END_S)

    def _wait_until(self, is_so: Callable[[], bool], what: str, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not all processes have {what}; see what they say in {self.directory}")
            time.sleep(_LOOK_S)

    def _journal(self, job: Job) -> Path:
        return self.directory / "journals" / f"{job.role}.{job.starts}.jsonl"

    def _tally(self) -> dict[str, int]:
        found = Counter(what for _, (what, *_) in lines(self.directory / "journals"))
        return {what: found[what] for what in (WROTE, FAILED, REFRESHED, CHECKED, SKIPPED, WRONG)}

    def _tell(self, now: float) -> None:
        said = "  ".join(f"{what} {count}" for what, count in self._tally().items())
        done = "  ".join(f"{action} {count}" for action, count in sorted(self.done.items()))
        self.report(f"{now:5.0f} s  {said}  {done}")

    def _found_wrong(self) -> Iterator[str]:
        yield from (str(more) for _, (what, _, _, more) in lines(self.directory / "journals") if what == WRONG)
        for name, job in self.jobs.items():
            yield from (f"{name} failed by itself: {text}" for text in job.failures)


def _all_have_ended(jobs: Sequence[Job]) -> bool:
    """Whether all have done their work; those that have died are started again."""
    ended = [job.keep_up() for job in jobs]
    return all(ended)


def _is_fresh(lake: Lake, name: str) -> bool:
    """Whether a view is at the newest snapshots of its sources."""
    try:
        position = position_of(lake.table(f"db.{name}"), name)
        if position is None:
            return False
        newest = {source: lake.table(source).logical.store.latest_snapshot() for source in position.sources}
    except LakelogError:
        return False
    return all(at.snapshot == getattr(newest[source], "id", 0) for source, at in position.sources.items())


def _last_differences(world: ViewWorld) -> Iterator[str]:
    """How files and log of each view differ from its query in the end."""
    for name, query in world.views.items():
        table = world.lake.table(f"db.{name}")
        for found in (compare_snapshot(world.lake, name, query), compare_log(world.lake, name, query)):
            if found or found is None:
                yield found or f"{name} has no position in its sources"
        files = sorted_rows(table.scan(columns_of(table)).to_arrow().to_pylist())
        if files != sorted_rows(folded(table, columns_of(table))):
            yield f"the log of {name} adds up to other rows than its files"
