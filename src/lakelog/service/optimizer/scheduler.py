"""Selection of the next run: the most urgent need first, fair between tables, within the budgets. Pure."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakelog.service.optimizer.watcher import OptimizerSettings
from lakelog.table.health.actions import Action
from lakelog.table.maintenance.run_history import DONE, FAILED, STOPPED

_HOUR_S: Final = 3600.0
_AGING_S: Final = 60.0
"""Seconds of waiting that raise the urgency of a need by one point, so that it runs in spite of more urgent ones."""
_MOST_DELAY_S: Final = 3600.0
_MOST_IDLE_DELAY_S: Final = 300.0
"""Maximum delays after failures, and after runs without effect."""


@dataclass(frozen=True)
class Job:
    """A need of a table that is due to run. A compaction may read ``most_bytes`` (None: no limit).

    With ``may_exceed``, a single larger bucket may run too, because otherwise it would never run.
    """

    table: str
    need: Action
    most_bytes: int | None = None
    may_exceed: bool = True

    @property
    def key(self) -> tuple[str, str]:
        """Table and kind."""
        return self.table, self.need.kind


@dataclass(frozen=True)
class Waiting:
    """A need that does not run now, and the reason. It may run in ``seconds``, or if None after another run ends."""

    table: str
    need: Action
    why: str
    seconds: float | None = None


@dataclass
class ByteBudget:
    """The bytes that were read in the last hour, at most ``limit`` (None: no limit)."""

    limit: int | None
    _spent: deque[tuple[float, int]] = field(default_factory=deque)

    def remaining(self, now_s: float) -> int | None:
        """The bytes that may be read now; None without a limit."""
        return None if self.limit is None else min(self.limit, max(0, self.limit - self.spent(now_s)))

    def spent(self, now_s: float) -> int:
        """The bytes that were read in the last hour."""
        while self._spent and self._spent[0][0] <= now_s - _HOUR_S:
            self._spent.popleft()
        return sum(count for _, count in self._spent)

    def spend(self, count: int, now_s: float) -> None:
        """Adds bytes that were read or are reserved; a negative number returns bytes."""
        if count:
            self._spent.append((now_s, count))

    def seconds_to_next(self, now_s: float) -> float:
        """Seconds until the oldest bytes no longer count."""
        return max(0.0, self._spent[0][0] + _HOUR_S - now_s) if self._spent else 0.0


@dataclass
class _Delay:
    until_s: float
    times: int
    why: str


class Scheduler:
    """The needs, active runs and delays of all tables. All times are seconds of one monotonic clock.

    ``salt`` orders tables of equal rank, so that several processes start with different tables.
    """

    def __init__(self, settings: OptimizerSettings, salt: str = "") -> None:
        self._settings, self._salt = settings, salt
        self.budget = ByteBudget(settings.bytes_per_hour)
        self.running: dict[str, Job] = {}
        self._needs: dict[str, dict[str, Action]] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._delays: dict[tuple[str, str], _Delay] = {}
        self._served: dict[str, float] = {}
        self._reserved: dict[str, int] = {}

    def offer(self, table: str, needs: Sequence[Action], now_s: float) -> None:
        """Replaces the needs of a table by those of its newest inspection."""
        needed = {need.kind: need for need in needs if need.kind in self._settings.kinds}
        self._needs[table] = needed
        for kind in needed:
            self._since.setdefault((table, kind), now_s)
        for key in [key for key in (*self._since, *self._delays) if key[0] == table and key[1] not in needed]:
            self._since.pop(key, None)
            self._delays.pop(key, None)

    def keep(self, tables: Collection[str]) -> None:
        """Forgets all other tables, because they no longer exist."""
        for table in [table for table in self._needs if table not in tables]:
            self.offer(table, (), 0.0)
            self._needs.pop(table)
            self._served.pop(table, None)

    def next(self, now_s: float) -> Job | None:
        """The run to start now; None if none may start."""
        if len(self.running) >= self._settings.parallel:
            return None
        ready = [job for job in self._jobs() if self._blocker(job, now_s) is None]
        if not ready:
            return None
        next_job = max(ready, key=lambda job: self._rank(job, now_s))
        left = self.budget.remaining(now_s)
        return Job(next_job.table, next_job.need, left, left is None or left == self.budget.limit)

    def begin(self, job: Job, now_s: float) -> None:
        """Records the start of a run, and reserves its bytes."""
        self.running[job.table] = job
        self._served[job.table] = now_s
        left = job.need.bytes if job.most_bytes is None else min(job.need.bytes, job.most_bytes)
        self._reserved[job.table] = left
        self.budget.spend(left, now_s)

    def end(self, job: Job, outcome: str, read: int, now_s: float, why: str = "") -> None:
        """Records the end of a run with an outcome of ``Run``, and the number of bytes that it has read."""
        self.running.pop(job.table, None)
        self.budget.spend(read - self._reserved.pop(job.table, 0), now_s)
        self._needs.get(job.table, {}).pop(job.need.kind, None)
        self._since.pop(job.key, None)
        if outcome in (DONE, STOPPED):
            self._delays.pop(job.key, None)
            return
        times = self._delays[job.key].times + 1 if job.key in self._delays else 1
        most = _MOST_DELAY_S if outcome == FAILED else _MOST_IDLE_DELAY_S
        delay = min(most, self._settings.interval_s * 2 ** min(times - 1, 20))
        self._delays[job.key] = _Delay(now_s + delay, times, why or outcome)

    def waiting(self, now_s: float) -> tuple[Waiting, ...]:
        """The needs that do not run now with their reasons, the next one first."""
        jobs = sorted(self._jobs(), key=lambda job: self._rank(job, now_s), reverse=True)
        out = []
        for job in jobs:
            running = self.running.get(job.table)
            if running is not None and running.need.kind == job.need.kind:
                continue
            why, seconds = self._blocker(job, now_s) or (f"{self._settings.parallel} runs are active", None)
            out.append(Waiting(job.table, job.need, why, seconds))
        return tuple(out)

    def seconds_to_next(self, now_s: float) -> float | None:
        """Seconds until a delayed need may run; None if none is delayed."""
        times = [blocker[1] for job in self._jobs() if (blocker := self._blocker(job, now_s)) is not None]
        return min((seconds for seconds in times if seconds is not None), default=None)

    def _jobs(self) -> list[Job]:
        return [Job(table, need) for table, needs in self._needs.items() for need in needs.values()]

    def _rank(self, job: Job, now_s: float) -> tuple[float, float, int]:
        """The rank by urgency, then by the time since the table's last run."""
        aged = (now_s - self._since.get(job.key, now_s)) // _AGING_S
        served = self._served.get(job.table, float("-inf"))
        return min(100.0, job.need.urgency + aged), -served, zlib.crc32(f"{self._salt}{job.table}".encode())

    def _blocker(self, job: Job, now_s: float) -> tuple[str, float | None] | None:
        """The reason why a job may not start, apart from the limit of parallel runs, and the remaining seconds."""
        running = self.running.get(job.table)
        if running is not None:
            return f"{running.need.kind} of the table is running", None
        delay = self._delays.get(job.key)
        if delay is not None and now_s < delay.until_s:
            return f"{delay.why}; attempt {delay.times + 1} is scheduled", delay.until_s - now_s
        if job.need.bytes and self.budget.remaining(now_s) == 0:
            return f"{self.budget.limit} bytes per hour are used up", self.budget.seconds_to_next(now_s)
        return None
