"""Operating system processes with threads and one clock, run step by step by a seeded scheduler."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf
from typing import Any

from greenlet import getcurrent, greenlet

MOST_STEPS = 10_000
"""Maximum steps of a schedule until all processes end; a few hundred are usual."""


class Killed(BaseException):
    """Unwinds the code of a killed process; its calls during that have no effect."""


class DoesNotRest(Exception):
    """The processes never end, or are in a deadlock."""


@dataclass(eq=False)
class Program:
    """A process: its threads die together. ``skew_ms`` is how far its clock is ahead of the others',
    ``is_safe`` that nothing happens to it."""

    name: str
    skew_ms: int = 0
    is_safe: bool = False
    threads: list[Thread] = field(default_factory=list)
    is_dead: bool = False
    stopped_until: float = 0.0
    number: int = field(default_factory=count(1).__next__)

    @property
    def is_done(self) -> bool:
        """Returns whether no code of it will run again."""
        if not self.is_dead:
            for thread in self.threads:
                if not thread.is_done:
                    return False
        return True


class Thread(greenlet):
    """A thread of a process; its code yields to the scheduler at each external call."""

    def __init__(self, program: Program, body: Callable[[], None]) -> None:
        super().__init__(self._guarded)
        self.program, self.is_done, self._body = program, False, body
        self.wakes_at = 0.0  # not before, whatever holds
        self.gives_up_at = inf  # then, whether it is ready or not
        self.ready: Callable[[], bool] | None = None
        program.threads.append(self)

    def _guarded(self) -> None:
        try:
            self._body()
        except Killed:
            pass
        finally:
            self.is_done = True


class Lock:
    """A re-entrant lock between the threads of a process; a module's lock exists once per process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held: dict[Program | None, tuple[Thread | None, int]] = {}

    def __enter__(self) -> None:
        here = self._scheduler.here()
        program = None if here is None else here.program
        owner, depth = self._held.get(program, (here, 0))
        if owner is not here:
            self._scheduler.wait_until(lambda: program not in self._held)
            depth = 0
        self._held[program] = here, depth + 1

    def __exit__(self, *_: object) -> None:
        here = self._scheduler.here()
        program = None if here is None else here.program
        owner, depth = self._held.pop(program)
        if depth > 1:
            self._held[program] = owner, depth - 1


class Event:
    """``threading.Event``; a module's event exists once per process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set: set[Program | None] = set()

    @property
    def _program(self) -> Program | None:
        here = self._scheduler.here()
        return None if here is None else here.program

    def is_set(self) -> bool:
        return self._program in self._set

    def set(self) -> None:
        self._set.add(self._program)

    def clear(self) -> None:
        self._set.discard(self._program)

    def wait(self, timeout: float | None = None) -> bool:
        until, program = inf if timeout is None else self._scheduler.now + timeout * 1000, self._program
        self._scheduler.wait_until(lambda: program in self._set, until)
        return self.is_set()


class Threading:
    """Replacement of the module ``threading`` in the code under test."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def Lock(self) -> Lock:  # noqa: N802 - as in threading
        return Lock(self._scheduler)

    def RLock(self) -> Lock:  # noqa: N802 - as in threading
        return Lock(self._scheduler)

    def Event(self) -> Event:  # noqa: N802 - as in threading
        return Event(self._scheduler)

    def Thread(self, target: Callable[..., None], args: Sequence[Any] = (), **_: Any) -> _Started:  # noqa: N802 - as in threading
        return _Started(self._scheduler, partial(target, *args))


class _Started:
    """A thread of the creating process; outside of all processes it never runs."""

    def __init__(self, scheduler: Scheduler, target: Callable[[], None]) -> None:
        self._scheduler, self._target = scheduler, target
        self._thread: Thread | None = None

    def start(self) -> None:
        here = self._scheduler.here()
        if here is not None:
            self._thread = Thread(here.program, self._target)
            self._scheduler.threads.append(self._thread)

    def is_alive(self) -> bool:
        return self._thread is not None and not self._thread.is_done

    def join(self) -> None:
        self._scheduler.wait_until(lambda: not self.is_alive())


class Scheduler:
    """Runs one thread at a time, up to its next call to the outside; chooses, kills and stops by its dice.

    It is also what the code under test takes for the modules ``time``, ``uuid`` and ``random``. Code that runs outside
    of every thread (checks at rest) never gives way and meets no fault.
    """

    def __init__(self, dice: random.Random, lease_s: float) -> None:
        self.dice, self.lease_s = dice, lease_s
        self.now = 1_700_000_000_000.0
        self.steps = 0
        self.events: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self.threads: list[Thread] = []
        self.stickiness = dice.choice((0.0, 0.6, 0.9))
        self.faults_left = dice.choice((0, 1, 2, 3, 5))
        self.fault_rate = dice.choice((0.01, 0.03))
        self.lost_rate = dice.choice((0.0, 0.0, 0.02))
        self._hub = getcurrent()
        self._last: Thread | None = None
        self._dying = False

    # -- what threads call

    def here(self) -> Thread | None:
        """The running thread; None outside of all."""
        found = getcurrent()
        return found if isinstance(found, Thread) else None

    def is_running(self, number: int) -> bool:
        """Returns whether code of the process with this number may still run."""
        return any(t.program.number == number and not t.program.is_done for t in self.threads)

    def pause(self, what: str = "") -> None:
        """Yields to the scheduler; called before each externally visible step. Raises Killed in a killed process."""
        found = getcurrent()
        if not isinstance(found, Thread):
            return
        if found.program.is_dead:
            raise Killed
        if self.trace is not None and what:
            self.note(what)
        self._hub.switch()
        if found.program.is_dead:
            raise Killed

    def wait_until(self, ready: Callable[[], bool], until: float = inf) -> None:
        """Yields until a condition holds, or until a time."""
        found = self.here()
        if found is None or ready():
            return
        found.ready, found.gives_up_at = ready, until
        try:
            self.pause()
        finally:
            found.ready, found.gives_up_at = None, inf

    def sleep(self, seconds: float) -> None:
        """``time.sleep``."""
        found = self.here()
        if found is not None:
            found.wakes_at = self.now + seconds * 1000
            self.pause()

    def time_ns(self) -> int:
        """``time.time_ns``."""
        found = self.here()
        return int(self.now + (0 if found is None else found.program.skew_ms)) * 1_000_000

    def monotonic(self) -> float:
        """``time.monotonic``."""
        return self.now / 1000

    def uuid4(self) -> uuid.UUID:
        """``uuid.uuid4``."""
        return uuid.UUID(int=self.dice.getrandbits(128), version=4)

    def random(self) -> float:
        """``random.random``."""
        return self.dice.random()

    def loses(self, what: str, rate: float | None = None) -> bool:
        """Returns whether the answer of this call is lost; with ``rate`` more often than those of others."""
        if rate is not None and self.here() is not None and self.dice.random() < rate:
            self.events["lost answers"] += 1
            self.note(f"LOST {what}")
            return True
        if not self.lost_rate or self.here() is None or self.dice.random() >= self.lost_rate:
            return False
        self.events["lost answers"] += 1
        self.note(f"LOST {what}")
        return True

    def landmark(self, what: str) -> None:
        """Called after a critical step: a process dies or stops here more often than elsewhere."""
        found = self.here()
        self.note(what)
        if found is not None and self.faults_left and self.dice.random() < 0.15:
            self.harm(found.program)
            self.pause()

    def note(self, what: str) -> None:
        """Adds a line to the trace, if there is one."""
        if self.trace is not None:
            found = self.here()
            who = "-" if found is None else found.program.name
            self.trace.append(f"{self.now - 1_700_000_000_000:9.0f} {who:12} {what}")

    # -- processes

    def start(self, program: Program, *bodies: Callable[[], None]) -> Program:
        """Starts threads of a process."""
        self.threads += [Thread(program, body) for body in bodies]
        return program

    def harm(self, program: Program) -> None:
        """Kills a process, or suspends it briefly or until its lease expires."""
        if program.is_safe:
            return
        self.faults_left -= 1
        chance = self.dice.random()
        if chance < 0.5:
            self.kill(program)
        else:
            self._stop(program, is_long=chance < 0.75)

    def _stop(self, program: Program, is_long: bool) -> None:
        seconds = self.lease_s * (1.1 + 2 * self.dice.random()) if is_long else 0.5 * self.dice.random()
        self.events["stopped past the lease" if is_long else "stopped"] += 1
        self.note(f"STOP {program.name} for {seconds:.2f} s")
        program.stopped_until = self.now + seconds * 1000

    def stop_here(self, chance: float) -> None:
        """Called before a step at which a process must not have lost its lease: it may be suspended until then."""
        found = self.here()
        if found is not None and self.dice.random() < chance:
            self._stop(found.program, is_long=True)
            self.pause()

    def kill(self, program: Program) -> None:
        """Kills a process at its current step; its threads unwind without any effect."""
        if program.is_done:
            return
        self.events["kills"] += 1
        self.note(f"KILL {program.name}")
        self.exit(program)

    def exit(self, program: Program) -> None:
        """Ends a process with all its threads."""
        program.is_dead = self._dying = True

    # -- the loop

    def step(self) -> bool:
        """Runs one thread up to its next yield; False if no thread can run."""
        if self._dying:
            self._bury()
        now, threads = self.now, self.threads
        if not threads:
            return False
        able = [
            t
            for t in threads
            if t.wakes_at <= now
            and t.program.stopped_until <= now
            and (t.ready is None or t.gives_up_at <= now or t.ready())
        ]
        if not able:
            self._skip()
            return True
        dice = self.dice
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise DoesNotRest(f"still running after {MOST_STEPS} steps: {self._names()}")
        last = self._last
        chosen = last if last in able and dice.random() < self.stickiness else able[int(dice.random() * len(able))]
        assert chosen is not None
        if self.faults_left and dice.random() < self.fault_rate and not chosen.program.is_safe:
            self.harm(chosen.program)
            return True
        self._last = chosen
        self.now += 10 * dice.random()
        chosen.parent = self._hub
        chosen.switch()
        if chosen.is_done:
            threads.remove(chosen)
        return True

    def run_all(self) -> None:
        """Runs until all threads have ended. Raises DoesNotRest."""
        while self.step():
            pass

    def end(self) -> None:
        """Kills the remaining processes."""
        for thread in self.threads:
            thread.program.is_dead = True
        self._bury()

    def _bury(self) -> None:
        """Unwinds the threads of dead processes."""
        self._dying = False
        for thread in [t for t in self.threads if t.program.is_dead]:
            if thread:
                thread.parent = self._hub
                thread.throw(Killed)
            thread.is_done = True
            self.threads.remove(thread)

    def _skip(self) -> None:
        """Advances the clock to the next time at which a thread can run."""
        waits = [
            max(t.wakes_at if t.ready is None else t.gives_up_at, t.program.stopped_until)
            if t.ready is None or not t.ready()
            else t.program.stopped_until
            for t in self.threads
        ]
        later = [at for at in waits if self.now < at < inf]
        if not later:
            raise DoesNotRest(f"all wait for each other: {self._names()}")
        self.now = min(later)

    def _names(self) -> list[str]:
        return sorted({t.program.name for t in self.threads})

    @contextmanager
    def without_faults(self) -> Any:
        """Context without faults."""
        before = self.faults_left, self.lost_rate
        self.faults_left, self.lost_rate = 0, 0.0
        yield
        self.faults_left, self.lost_rate = before
