"""Processes that go step by step, as the scheduler lets them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from lakelog.errors import CommitConflict, Fenced, Unavailable


class Killed(BaseException):
    """Ends a process at the place where it waits."""


class Process:
    """A thread that runs one step at a time."""

    here = threading.local()

    def __init__(self, body: Callable[[Process], None]) -> None:
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self.done, self.killed, self.failure = False, False, None
        self._body, self._ready = body, lambda: True
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        Process.here.process = self
        self._go.acquire()
        try:
            if not self.killed:
                self._body(self)
        except (Killed, Fenced, CommitConflict, Unavailable):
            pass
        except BaseException as failure:  # noqa: BLE001 - told to the test by the scheduler
            self.failure = failure
        self.done = True
        self._back.release()

    def pause(self) -> None:
        """Gives way, at a place where the process may be killed."""
        self._back.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Gives way until something holds."""
        self._ready = ready
        self.pause()

    @staticmethod
    def sleep(seconds: float) -> None:
        """Stands for the clock's: one millisecond is one time that the scheduler wants to run this process."""
        left = iter(range(int(seconds * 1000)))
        Process.here.process.wait_until(lambda: next(left, None) is None)

    def step(self) -> None:
        if self.done or not (self.killed or self._ready()):
            return
        self._ready = lambda: True
        self._go.release()
        self._back.acquire()
        if self.failure is not None:
            raise self.failure

    def kill(self) -> None:
        self.killed = True
        self.step()


class Steps:
    """A process that is a generator: cheaper, for tasks."""

    def __init__(self, steps: Iterator[None]) -> None:
        self._steps, self.done = steps, False

    def step(self) -> None:
        self.done = self.done or next(self._steps, self) is self

    def kill(self) -> None:
        self.done = True
