"""Simulated time and processes. The process whose wait ends first runs next."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from greenlet import getcurrent, greenlet
from simulated_process import DoesNotRest, Killed

BEGIN_MS = 1_700_000_000_000.0
MOST_STEPS = 20_000
"""Maximum steps of a schedule until all processes end; one or two hundred are usual."""


class Process(greenlet):
    """A process. ``skew_ms`` is how far its clock of the day is ahead of the others'."""

    def __init__(self, name: str, skew_ms: int, body: Callable[[], None]) -> None:
        super().__init__(body)
        self.name, self.skew_ms, self.turn = name, skew_ms, -1
        self.is_expirer = self.is_ending = False


class Clock:
    """Simulated time. It replaces the modules ``time``, ``uuid`` and ``random`` in the code under test.

    Outside of all processes (checks at rest), a wait only advances the time.
    """

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.now, self.steps = dice, BEGIN_MS, 0
        self.events: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self._hub, self._numbers = getcurrent(), count()
        self._queue: list[tuple[float, int, Process | Callable[[], object]]] = []
        self._waiting: dict[str, list[Process]] = {}
        self._processes: list[Process] = []

    def here(self) -> Process | None:
        """The running process; None outside of all."""
        found = getcurrent()
        return found if isinstance(found, Process) else None

    # -- what processes call

    def wait(self, ms: float) -> None:
        """Suspends the running process for some time."""
        process = self.here()
        if process is None:
            self.now += ms
            return
        self._wake(process, ms)
        self._hub.switch()

    def wait_for(self, what: str, most_ms: float) -> bool:
        """Waits until something ``happened``, at most for some time; returns whether it did."""
        process = self.here()
        if process is None:
            return False
        waiting = self._waiting.setdefault(what, [])
        waiting.append(process)
        self.wait(most_ms)
        if process not in waiting:
            return True
        waiting.remove(process)
        return False

    def is_awaited(self, what: str) -> bool:
        """Returns whether a process waits for this to happen."""
        return bool(self._waiting.get(what))

    def happened(self, what: str) -> None:
        """Soon wakes the processes that wait for this."""
        waiting = self._waiting.get(what)
        while waiting:
            self._wake(waiting.pop(), 3 * self.dice.random())

    def later(self, ms: float, effect: Callable[[], object]) -> None:
        """Calls a function after some time, even if the process has ended."""
        heappush(self._queue, (self.now + ms, next(self._numbers), effect))

    def note(self, what: str) -> None:
        """Adds a line to the trace, if there is one."""
        if self.trace is not None:
            process = self.here()
            who = "-" if process is None else process.name
            self.trace.append(f"{self.now - BEGIN_MS:11.1f} {who:10} {what}")

    # -- the modules

    def time_ns(self) -> int:
        """``time.time_ns``."""
        process = self.here()
        return int(self.now + (0 if process is None else process.skew_ms)) * 1_000_000

    def monotonic(self) -> float:
        """``time.monotonic``."""
        return self.now / 1000

    def sleep(self, seconds: float) -> None:
        """``time.sleep``."""
        self.wait(seconds * 1000)

    def uuid4(self) -> uuid.UUID:
        """``uuid.uuid4``."""
        return uuid.UUID(int=self.dice.getrandbits(128), version=4)

    def random(self) -> float:
        """``random.random``."""
        return self.dice.random()

    # -- the loop

    def start(self, process: Process, after_ms: float) -> None:
        """Starts a process after some time."""
        self._processes.append(process)
        self._wake(process, after_ms)

    def run(self) -> None:
        """Runs until all processes have ended. Raises DoesNotRest."""
        queue = self._queue
        while queue:
            at, number, who = heappop(queue)
            if not isinstance(who, Process):
                self.now = max(self.now, at)
                who()
            elif who.turn == number:  # else something that it waited for woke it earlier
                self.now, self.steps = max(self.now, at), self.steps + 1
                if self.steps > MOST_STEPS:
                    names = sorted(p.name for p in self._processes if not p.dead)
                    raise DoesNotRest(f"still running after {MOST_STEPS} steps: {names}")
                who.parent = self._hub
                who.switch()

    def end(self) -> None:
        """Ends the remaining processes."""
        for process in self._processes:
            if process:
                process.parent, process.is_ending = self._hub, True
                process.throw(Killed)

    def _wake(self, process: Process, ms: float) -> None:
        process.turn = next(self._numbers)
        heappush(self._queue, (self.now + ms, process.turn, process))
