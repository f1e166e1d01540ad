"""Processes that go step by step, as the scheduler lets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from greenlet import getcurrent, greenlet

from lakelog.errors import CommitConflict, Fenced, Unavailable


class Killed(BaseException):
    """Ends a process at the place where it waits."""


class Process:
    """Code of any depth that runs one step at a time: a greenlet, which costs a hundredth of a thread."""

    def __init__(self, body: Callable[[Process], None]) -> None:
        self.done, self._ready = False, lambda: True
        self._body, self._code = body, Code(self._run)
        self._code.process = self

    def _run(self) -> None:
        try:
            self._body(self)
        except (Killed, Fenced, CommitConflict, Unavailable):
            pass
        finally:
            self.done = True

    def pause(self) -> None:
        """Gives way, at a place where the process may be killed."""
        assert self._code.parent is not None
        self._code.parent.switch()

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Gives way until something holds."""
        self._ready = ready
        self.pause()

    @staticmethod
    def sleep(seconds: float) -> None:
        """Stands for the clock's: one millisecond is one time that the scheduler wants to run this process."""
        left = iter(range(int(seconds * 1000)))
        here = getcurrent()
        assert isinstance(here, Code)
        here.process.wait_until(lambda: next(left, None) is None)

    def step(self) -> None:
        if self.done or not self._ready():
            return
        self._ready = lambda: True
        self._code.parent = getcurrent()
        self._code.switch()

    def kill(self) -> None:
        if not self.done and self._code:
            self._code.parent = getcurrent()
            self._code.throw(Killed)
        self.done = True


class Code(greenlet):
    """What a process runs."""

    process: Process


class Steps:
    """A process that is a generator: cheaper, for tasks."""

    def __init__(self, steps: Iterator[None]) -> None:
        self._steps, self.done = steps, False

    def step(self) -> None:
        self.done = self.done or next(self._steps, self) is self

    def kill(self) -> None:
        self.done = True
