"""The shortest history that still goes wrong in the same way: fewer steps, fewer rows, fewer options and columns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from model.action import Action
from model.history import Failure, History, replayed
from model.tables import Table


def shrunk(failure: Failure, seconds: float = 30.0) -> Failure:
    """The smallest failure of the same kind that is found in so many seconds."""
    until = time.monotonic() + seconds
    again = _same(failure, failure.history)
    if again is None:
        return failure
    best, changed = again, True
    while changed:
        changed = False
        for smaller in _smaller(best.history):
            if time.monotonic() > until:
                return best
            found = _same(failure, smaller)
            if found is not None:
                best, changed = found, True
                break
    return best


def _same(failure: Failure, history: History) -> Failure | None:
    try:
        found = replayed(history, failure.kind)
    except Exception:  # the model cannot say what this means
        return None
    return found if found is not None and (found.kind, _what(found)) == (failure.kind, _what(failure)) else None


def _what(failure: Failure) -> str:
    """Found rows, or the kind of an error."""
    if failure.kind in ("refused", "accepted"):
        return failure.found[:60]
    head = failure.found.split(":", 1)[0]
    return head if head.isidentifier() else ""


def _smaller(history: History) -> Iterator[History]:
    steps = history.steps
    size = max(1, len(steps) // 2)
    while size:
        for at in range(len(steps) - size, -1, -size):
            yield replace(history, steps=steps[:at] + steps[at + size :])
        size //= 2
    for at, step in enumerate(steps):
        for smaller in _smaller_steps(step):
            yield replace(history, steps=(*steps[:at], smaller, *steps[at + 1 :]))
    for table in _smaller_tables(history.table):
        yield replace(history, table=table)


def _smaller_steps(step: Action) -> Iterator[Action]:
    """The step with half of the rows, or one row fewer."""
    names = {one.name for one in fields(step)}
    if "rows" in names:
        rows: tuple[Any, ...] = step.rows  # type: ignore[attr-defined]
        if len(rows) > 3:
            yield replace(step, rows=rows[: len(rows) // 2])  # type: ignore[call-arg]
            yield replace(step, rows=rows[len(rows) // 2 :])  # type: ignore[call-arg]
        if len(rows) > 1:
            for at in range(len(rows)):
                yield replace(step, rows=rows[:at] + rows[at + 1 :])  # type: ignore[call-arg]
    if getattr(step, "how", "write") != "write" and getattr(step, "handle", "t") == "t" and "rows" in names:
        yield replace(step, how="write")  # type: ignore[call-arg]
    where = getattr(step, "where", None)
    if where is not None:
        for part in where.parts:
            yield replace(step, where=part)  # type: ignore[call-arg]


def _smaller_tables(table: Table) -> Iterator[Table]:
    for key in table.options:
        yield table.without(key)
    for column in table.columns:
        if column.default is not None:
            yield replace(table, columns=tuple(replace(c, default=None) if c == column else c for c in table.columns))
