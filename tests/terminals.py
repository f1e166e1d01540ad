"""Terminals for tests: run a text, look at what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lakelog.service.terminal import Execution, StatementState, Terminal

PATIENCE_S = 240.0


def run(terminal: Terminal, text: str, **where: str) -> Execution:
    """Runs a text to its end."""
    execution = terminal.submit(text, **where)
    state = execution.wait(PATIENCE_S)
    assert execution.is_over, (text, state, execution.snapshot())
    return execution


def done(terminal: Terminal, text: str, **where: str) -> Execution:
    """Runs a text that has to succeed."""
    execution = run(terminal, text, **where)
    assert execution.state == "done", (text, execution.snapshot())
    return execution


def rows(terminal: Terminal, text: str) -> list[list[Any]]:
    """The rows of the last statement of a text."""
    execution = done(terminal, text)
    return execution.rows(len(execution.snapshot().statements) - 1)


def last(execution: Execution) -> StatementState:
    return execution.snapshot().statements[-1]


def until(check: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Waits for something to be so."""
    end = time.monotonic() + patience_s
    while not check():
        assert time.monotonic() < end, what
        time.sleep(0.05)
