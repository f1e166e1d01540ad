"""The process of one command: its output, and that of its child processes."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, TextIO

import click

from lakelog.options.names import visible


@dataclass
class Process:
    """State of one run of ``lakelog``; ``owned`` means that this process does nothing else (False inside a test).

    ``quiet``: only results and errors are printed. ``logs``: lakelog's log goes to stderr. ``config`` is the file with
    the connection to the warehouse.
    """

    owned: bool = False
    debug: bool = False
    silenced: bool = False
    quiet: bool = False
    logs: bool = False
    config: Path | None = None
    interrupted_code: int = 130

    def end_on_sigterm(self) -> None:
        """Makes SIGTERM end the command as Ctrl-C does, with its own exit code. Called by the process of a command."""
        owner = os.getpid()

        def end(number: int, frame: FrameType | None) -> None:
            if os.getpid() != owner:  # a forked process ends at once
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            self.interrupted_code = 128 + number
            raise KeyboardInterrupt

        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, end)

    def silence_children(self) -> None:
        """Discards the output of Spark's JVM and workers. Called before they start; the command's output is unchanged.

        Without it, Spark's start-up messages would appear between the rows. ``--debug`` keeps them.
        """
        if self.debug or self.silenced or not self.owned:
            return
        self.silenced = True
        warnings.simplefilter("ignore")
        if not self.logs:
            logging.disable(logging.CRITICAL)
        before = sys.stderr
        sys.stdout, sys.stderr = _moved(sys.stdout), _moved(sys.stderr)
        for handler in logging.getLogger("lakelog").handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is before:
                handler.setStream(sys.stderr)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    def drop_output(self) -> None:
        """Discards the rest of stdout's buffer, so that the interpreter exits without an error message."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class Screen:
    """The terminal that results and bars share: bars are cleared while something is printed."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.clear: Callable[[], None] = lambda: None

    @contextmanager
    def printing(self) -> Iterator[None]:
        """Context without bars, for output."""
        with self.lock:
            self.clear()
            yield


SCREEN: Final = Screen()
"""The terminal of this process."""


def current_process() -> Process:
    """The process of the running command; a default one if a command is called directly."""
    context = click.get_current_context(silent=True)
    process = None if context is None else context.find_object(Process)
    return process or Process()


def remark(text: str) -> None:
    """Prints a note for people to stderr, unless with ``--quiet``."""
    if not current_process().quiet:
        echo(visible(text), err=True)


def echo(text: str, err: bool = False) -> None:
    """Prints a line to stdout, or to stderr."""
    with SCREEN.printing():
        click.echo(text, err=err)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Makes SIGTERM, which ends services, raise KeyboardInterrupt as Ctrl-C does, also in the background."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {name: signal.signal(name, end) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _moved(stream: TextIO) -> TextIO:
    """The same stream on a descriptor that child processes do not inherit."""
    stream.flush()
    copy = os.dup(stream.fileno())
    return os.fdopen(copy, "w", encoding=stream.encoding, errors=stream.errors, buffering=1 if stream.isatty() else -1)
