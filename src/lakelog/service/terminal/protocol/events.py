"""The events of an execution in order, readable from any position."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from lakelog.io.clock import monotonic_s, now_ms

_NEWEST_ONLY: Final = ("progress", "stream", "waiting")
"""Kinds of which only the newest event of a statement is kept."""


@dataclass(frozen=True)
class Event:
    """One event: ``kind`` and its ``data``, plain JSON.

    ``sequence`` increases with each event. ``statement`` is the number, from 0, of the statement in the text, None for
    the whole text. Kinds: waiting (why, what_to_do), parsed (statements), started, columns (columns), rows (first,
    rows), progress (jobs, tasks, running, done), stream (Spark's report), ended (state, rows, elapsed_ms, message,
    error).
    """

    sequence: int
    time_ms: int
    kind: str
    statement: int | None
    data: Mapping[str, Any] = field(default_factory=dict)


class EventLog:
    """The events of one execution, bounded: of a stream only the newest rows are kept."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._events: list[Event] = []
        self._rows: dict[int | None, int] = {}
        self._last = 0
        self._changed = threading.Condition()
        self._closed = False
        self._listeners: list[Callable[[], object]] = []

    def add(self, kind: str, statement: int | None, data: Mapping[str, Any]) -> Event:
        with self._changed:
            self._last += 1
            event = Event(self._last, now_ms(), kind, statement, data)
            if kind in _NEWEST_ONLY:
                self._events = [e for e in self._events if (e.kind, e.statement) != (kind, statement)]
            self._events.append(event)
            if kind == "rows":
                self._forget_rows(statement, len(data["rows"]))
            self._notify()
            return event

    def close(self) -> None:
        """Marks the end of the events."""
        with self._changed:
            self._closed = True
            self._notify()

    @contextmanager
    def listening(self, changed: Callable[[], object]) -> Iterator[None]:
        """Context in which ``changed`` is called, from any thread, after each event and at the end."""
        with self._changed:
            self._listeners.append(changed)
        try:
            yield
        finally:
            with self._changed:
                self._listeners.remove(changed)

    def since(self, after: int) -> tuple[Event, ...]:
        """The existing events after a sequence number."""
        with self._changed:
            return tuple(event for event in self._events if event.sequence > after)

    def follow(self, after: int, wait_s: float | None) -> Iterator[Event]:
        """The events after a sequence number until the end, or until none has come for ``wait_s`` seconds."""
        while True:
            with self._changed:
                events = tuple(event for event in self._events if event.sequence > after)
                end = None if wait_s is None else monotonic_s() + wait_s
                while not events and not self._closed:
                    left = None if end is None else end - monotonic_s()
                    if left is not None and left <= 0:
                        return
                    self._changed.wait(left)
                    events = tuple(event for event in self._events if event.sequence > after)
                if not events:
                    return
            for event in events:
                after = event.sequence
                yield event

    def _notify(self) -> None:
        self._changed.notify_all()
        for changed in self._listeners:
            changed()

    def _forget_rows(self, statement: int | None, more: int) -> None:
        """Drops the oldest rows of a stream beyond the limit."""
        rows = self._rows.get(statement, 0) + more
        for event in [e for e in self._events if e.kind == "rows" and e.statement == statement]:
            size = len(event.data["rows"])
            if rows - size < self._max_rows:
                break
            self._events.remove(event)
            rows -= size
        self._rows[statement] = rows
