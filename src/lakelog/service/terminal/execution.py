"""One submitted text of statements, while it runs and afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakelog.io.clock import monotonic_s, now_ms
from lakelog.service.terminal.protocol.config import Limits
from lakelog.service.terminal.protocol.error_report import Failure
from lakelog.service.terminal.protocol.events import Event, EventLog

QUEUED, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"
SKIPPED: Final = "skipped"
_OVER: Final = (DONE, FAILED, CANCELLED)


@dataclass(frozen=True)
class StatementState:
    """One statement of the text: ``start`` and ``end`` are its offsets there, ``line`` counts from 1.

    ``state`` is queued, running, done, failed, cancelled or skipped (an earlier statement failed). ``rows`` is the
    number of shown rows; ``stream`` is the progress of a streaming statement.
    """

    number: int
    text: str
    start: int
    end: int
    line: int
    column: int
    needs: str
    state: str = QUEUED
    started_ms: int | None = None
    elapsed_ms: int | None = None
    columns: tuple[Mapping[str, str], ...] = ()
    rows: int | None = None
    truncated: bool = False
    message: str | None = None
    error: Failure | None = None
    progress: Mapping[str, Any] | None = None
    stream: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ExecutionState:
    """The state at one moment, without the rows: plain JSON by ``dataclasses.asdict``.

    ``sequence`` is that of the newest event: ``events(after=sequence)`` continues from here. The next text would run in
    ``catalog`` and ``database``. ``waiting`` is the reason of a wait, and what to do about it.
    """

    id: int
    text: str
    state: str
    submitted_ms: int
    elapsed_ms: int | None
    statements: tuple[StatementState, ...]
    error: Failure | None
    waiting: Mapping[str, str] | None
    catalog: str | None
    database: str | None
    sequence: int


@dataclass
class _Now:
    """The mutable state of a running text."""

    state: str = QUEUED
    statements: dict[int, StatementState] = field(default_factory=dict)
    error: Failure | None = None
    waiting: Mapping[str, str] | None = None
    sequence: int = 0
    elapsed_ms: int | None = None
    foreground: bool = True
    statement_s: float | None = None


class Execution:
    """A handle on a text, created by ``Terminal.submit``. Thread-safe."""

    def __init__(
        self,
        id: int,
        text: str,
        catalog: str | None,
        database: str | None,
        limits: Limits,
        cancel: Callable[[Execution], None],
        listener: Callable[[Execution, StatementState | None], None],
    ) -> None:
        self.id, self.text = id, text
        self.catalog, self.database = catalog, database
        self.submitted_ms, self._submitted_s = now_ms(), monotonic_s()
        self._log, self._now = EventLog(limits.max_rows), _Now()
        self._cancel, self._listener = cancel, listener
        self._lock = threading.RLock()
        self._over = threading.Event()

    @property
    def state(self) -> str:
        """queued, running, done, failed or cancelled."""
        return self._now.state

    @property
    def is_over(self) -> bool:
        """True if the text has ended."""
        return self._over.is_set()

    @property
    def statement_since_s(self) -> float | None:
        """The start (monotonic seconds) of the running statement; None without one, or for a stream."""
        return self._now.statement_s

    def snapshot(self) -> ExecutionState:
        with self._lock:
            now = self._now
            return ExecutionState(
                self.id,
                self.text,
                now.state,
                self.submitted_ms,
                now.elapsed_ms,
                tuple(now.statements[number] for number in sorted(now.statements)),
                now.error,
                now.waiting,
                self.catalog,
                self.database,
                now.sequence,
            )

    def events(self, after: int = 0, wait_s: float | None = None) -> Iterator[Event]:
        """The events after a sequence number until the end, in order.

        Ends with the execution, or after ``wait_s`` seconds without an event (0: returns the existing ones). After a
        lost connection, a client continues with the last ``sequence`` received; of a stream the newest rows are kept.
        """
        return iter(self._log.since(after)) if wait_s == 0 else self._log.follow(after, wait_s)

    def listening(self, changed: Callable[[], object]) -> AbstractContextManager[None]:
        """Context in which ``changed`` is called, from any thread, for each new event."""
        return self._log.listening(changed)

    def rows(self, statement: int = 0) -> list[list[Any]]:
        """The kept rows of a statement: the first ones, or the newest of a stream."""
        events = (e for e in self._log.since(0) if e.kind == "rows" and e.statement == statement)
        return [row for event in events for row in event.data["rows"]]

    def wait(self, timeout_s: float | None = None) -> str:
        """Waits for the end, or until the timeout; returns the state."""
        self._over.wait(timeout_s)
        return self.state

    def cancel(self) -> None:
        """Cancels the text and its streams; returns at once. ``wait`` waits for the end."""
        self._cancel(self)

    def begin(self) -> None:
        """Called when the text is sent to the worker."""
        with self._lock:
            self._now.state = RUNNING
            self._now.waiting = None
            self._add("started", None, {})

    def wait_for(self, why: str, what_to_do: str) -> None:
        """Called when it cannot start or continue yet."""
        with self._lock:
            self._now.waiting = {"why": why, "what_to_do": what_to_do}
            self._add("waiting", None, self._now.waiting)

    def receive(self, kind: str, statement: int | None, data: Mapping[str, Any]) -> None:
        """Called with each message of the worker."""
        with self._lock:
            if self.is_over:
                return
            if kind == "waiting":
                self._now.waiting = {"why": data["why"], "what_to_do": data["what_to_do"]}
            elif kind == "spark":
                self._now.waiting = None
                self._now.statement_s = monotonic_s()  # the start of Spark does not count as the statement's time
                return
            elif kind == "parsed":
                self._now.waiting = None
                self._now.statements = {n: StatementState(n, **one) for n, one in enumerate(data["statements"])}
            elif kind == "ended" and statement is None:
                self._now.error = Failure(**data["error"])
                return
            self._add(kind, statement, data)
            if statement is not None and statement in self._now.statements:
                self._change(kind, statement, data)

    def free(self) -> None:
        """Called when the worker starts the next text: only streams of this one still run."""
        with self._lock:
            self._now.foreground = False
            self._now.statement_s = None
            self._end_if_over()

    def fail(self, failure: Failure, state: str = FAILED) -> None:
        """Called when it cannot continue: its process has ended, its time is over, or it never began."""
        with self._lock:
            if self.is_over:
                return
            for number, one in list(self._now.statements.items()):
                if one.state == RUNNING:
                    ended = {"state": state, "error": failure.to_values() if state == FAILED else None}
                    self._add("ended", number, ended)
                    self._change("ended", number, ended)
            self._now.error = failure
            self._now.foreground = False
            self._end(state)

    def _change(self, kind: str, number: int, data: Mapping[str, Any]) -> None:
        one = self._now.statements[number]
        if kind == "started":
            one = replace(one, state=RUNNING, started_ms=now_ms())
            self._now.statement_s = monotonic_s()
        elif kind == "columns":
            one = replace(one, columns=tuple(data["columns"]))
        elif kind == "rows":
            one = replace(one, rows=data["first"] + len(data["rows"]))
        elif kind == "progress":
            one = replace(one, progress=data)
        elif kind == "stream":
            one = replace(one, stream=data)
            self._now.statement_s = None
        elif kind == "ended" and one.state in (QUEUED, RUNNING):
            one = self._ended(one, data)
        self._now.statements[number] = one

    def _ended(self, one: StatementState, data: Mapping[str, Any]) -> StatementState:
        error = data.get("error")
        self._now.statement_s = None
        if data.get("catalog") is not None:
            self.catalog, self.database = data["catalog"], data["database"]
        elapsed = data.get("elapsed_ms")
        if elapsed is None and one.started_ms is not None:
            elapsed = max(0, now_ms() - one.started_ms)
        one = replace(
            one,
            state=data["state"],
            rows=data.get("rows", one.rows),
            truncated=data.get("truncated", False),
            message=data.get("message"),
            elapsed_ms=elapsed,
            error=None if error is None else Failure(**error),
        )
        self._listener(self, one)
        if not self._now.foreground:
            self._now.statements[one.number] = one
            self._end_if_over()
        return one

    def _end_if_over(self) -> None:
        states = [one.state for one in self._now.statements.values()]
        if self._now.foreground or RUNNING in states or self.is_over:
            return
        worst = next((state for state in (FAILED, CANCELLED) if state in states), DONE)
        self._end(FAILED if self._now.error is not None else worst)

    def _end(self, state: str) -> None:
        now = self._now
        now.state, now.waiting = state, None
        for number, one in now.statements.items():
            if one.state == QUEUED:
                now.statements[number] = replace(one, state=SKIPPED)
        now.elapsed_ms = round((monotonic_s() - self._submitted_s) * 1000)
        if now.error is None:
            now.error = next((one.error for one in now.statements.values() if one.error is not None), None)
        if not any(one.state in _OVER for one in now.statements.values()):
            self._listener(self, None)
        error = None if now.error is None else now.error.to_values()
        self._add("ended", None, {"state": state, "elapsed_ms": now.elapsed_ms, "error": error})
        self._over.set()
        self._log.close()

    def _add(self, kind: str, statement: int | None, data: Mapping[str, Any]) -> None:
        self._now.sequence = self._log.add(kind, statement, data).sequence
