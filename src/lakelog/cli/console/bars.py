"""Bars on a terminal for the steps of this process that take seconds; nothing in a pipe or a file."""

from __future__ import annotations

import sys
import threading
from typing import Final

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from lakelog.cli.console.process import SCREEN
from lakelog.io.clock import monotonic_s
from lakelog.io.metrics import METER, Step
from lakelog.options.names import visible

AFTER_S: Final = 1.5
"""Duration of a step from which on it has a bar."""
_EVERY_S: Final = 0.2


class _Done(ProgressColumn):
    """What is done, of how much if that is known, with its unit."""

    def render(self, task: Task) -> Text:
        unit = str(task.fields["unit"])
        if not unit:
            return Text("")
        amounts = [int(task.completed)] + ([] if task.total is None else [int(task.total)])
        if unit == "bytes":
            return Text(" of ".join(map(decimal, amounts)))
        return Text(" of ".join(f"{amount:,}" for amount in amounts) + f" {unit}")


class Bars:
    """The bars of this process: one for each running step that is older than ``AFTER_S``. Starts its own thread."""

    def __init__(self) -> None:
        self._drawn: Progress | None = None
        self._tasks: dict[Step, TaskID] = {}
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Shows bars from now on, if stderr is a terminal."""
        if self._thread is None and sys.stderr.isatty():
            self._is_over.clear()
            SCREEN.clear = self._clear
            self._thread = threading.Thread(target=self._run, name="lakelog-bars", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Removes the bars, and shows no more."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with SCREEN.printing():
            pass

    def _run(self) -> None:
        while not self._is_over.wait(_EVERY_S):
            self.draw()

    def draw(self) -> None:
        """Draws the present state once."""
        now = monotonic_s()
        steps = [step for step in METER.running() if now - step.begun_s >= AFTER_S]
        with SCREEN.lock:
            if not steps or self._is_over.is_set():
                self._clear()
                return
            if self._drawn is None:
                columns = (TextColumn("{task.description}", markup=False), BarColumn(), _Done(), TimeElapsedColumn())
                console = Console(file=sys.stderr)
                self._drawn = Progress(
                    *columns, console=console, transient=True, auto_refresh=False,
                    redirect_stdout=False, redirect_stderr=False, get_time=monotonic_s,
                )  # fmt: skip
                self._drawn.start()
            for step in self._tasks.keys() - set(steps):
                self._drawn.remove_task(self._tasks.pop(step))
            for step in steps:
                if step not in self._tasks:
                    task = self._tasks[step] = self._drawn.add_task(
                        _title(step), total=step.total, completed=step.done, unit=step.unit
                    )
                    self._drawn.tasks[-1].start_time = step.begun_s
                    assert self._drawn.tasks[-1].id == task
                self._drawn.update(self._tasks[step], completed=step.done, total=step.total)
            self._drawn.refresh()

    def _clear(self) -> None:
        if self._drawn is not None:
            self._drawn.stop()
        self._drawn, self._tasks = None, {}


def _title(step: Step) -> str:
    """The name of a step and its subject, which is its first field."""
    return visible(" ".join([step.name, *(str(value) for value in list(step.fields.values())[:1])]))


BARS: Final = Bars()
"""The bars of this process."""


def shown_bars() -> Bars:
    """Starts the bars of this process: for a command, and at a prompt of Python."""
    BARS.start()
    return BARS
