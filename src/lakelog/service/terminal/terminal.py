"""A user's terminal: statements that run in their own process, within limits and privileges."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from lakelog.errors import InvalidRequest, NotFound
from lakelog.io import scheme_of
from lakelog.io.clock import monotonic_s
from lakelog.service.terminal.audit import AuditEntry, AuditLog
from lakelog.service.terminal.execution import CANCELLED, FAILED, Execution, StatementState
from lakelog.service.terminal.protocol.config import Limits, TerminalConfig
from lakelog.service.terminal.protocol.error_report import Failure
from lakelog.service.terminal.worker_process import WorkerProcess

_POLL_S: Final = 0.5
_MIB: Final = 1 << 20
_CANCELLED: Final = "Cancelled"
_NEW_PROCESS: Final = (
    "the next statement starts a new process; temporary views, streams and USE of this process are lost"
)


@dataclass(frozen=True)
class TerminalState:
    """The state of a terminal. ``process`` is none, idle or busy; ``memory_bytes`` includes its children."""

    process: str
    pid: int | None
    memory_bytes: int
    memory_limit_bytes: int
    queued: int
    running: int | None
    streams: int
    idle_s: float


@dataclass(frozen=True)
class StreamState:
    """A running streaming statement; ``progress`` is Spark's report."""

    execution: int
    statement: int
    text: str
    progress: Mapping[str, Any]


class Terminal:
    """The terminal of one session of a user. Texts run one after the other, streams in parallel.

    The process starts with the first text and is reused. It ends after an idle time, with ``close``, and with this
    process. Thread-safe. ``audit`` records every statement.
    """

    def __init__(self, config: TerminalConfig, audit: AuditLog | None = None) -> None:
        self.config = replace(
            config, warehouse=_absolute(config.warehouse), catalogs=_with_absolute_warehouses(config.catalogs)
        )
        self._audit = audit
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        self._worker: WorkerProcess | None = None
        self._waiting: deque[Execution] = deque()
        self._current: Execution | None = None
        self._known: dict[int, Execution] = {}
        self._cancelled_s: dict[int, float] = {}
        self._reasons: dict[int, Failure] = {}
        self._idle_since = monotonic_s()
        self._memory = 0
        self._closed = False
        self._died: Failure | None = None

    def submit(self, text: str, catalog: str | None = None, database: str | None = None) -> Execution:
        """Runs a text of one or more statements; returns at once.

        ``catalog`` and ``database`` become current before it (None: those after the previous text). Raises
        InvalidRequest if the text is empty or too long, too many wait, or the terminal is closed; NotInstalled.
        """
        limits = self.config.limits
        if not text.strip():
            raise InvalidRequest("no statement given: write one, such as SHOW TABLES")
        if len(text.encode()) > limits.max_text_bytes:
            raise InvalidRequest(
                f"the text has more than {limits.max_text_bytes} bytes: send it in parts, or run a file with "
                f"`lakelog sql --file`"
            )
        with self._lock:
            if self._closed:
                raise InvalidRequest("this terminal is closed: open another one")
            if len(self._waiting) >= limits.max_queued:
                raise InvalidRequest(
                    f"{len(self._waiting)} texts are queued: wait until they end, or cancel the running one"
                )
            execution = Execution(next(self._numbers), text, catalog, database, limits, self._cancel, self._note)
            self._known[execution.id] = execution
            self._forget()
            if self._current is not None:
                execution.wait_for(
                    f"text {self._current.id} runs",
                    "wait until it ends, or cancel it; a session runs one text at a time",
                )
            self._waiting.append(execution)
            self._next()
        return execution

    def execution(self, number: int) -> Execution:
        """The handle of a text. Raises NotFound for an unknown or dropped one."""
        with self._lock:
            execution = self._known.get(number)
        if execution is None:
            raise NotFound(
                f"execution {number} does not exist in this terminal, which keeps the newest "
                f"{self.config.limits.kept_executions}"
            )
        return execution

    def executions(self) -> tuple[Execution, ...]:
        """The kept texts, newest first."""
        with self._lock:
            return tuple(self._known[number] for number in sorted(self._known, reverse=True))

    def streams(self) -> tuple[StreamState, ...]:
        running = []
        for execution in self.executions():
            states = () if execution.is_over else execution.snapshot().statements
            running += [
                StreamState(execution.id, one.number, one.text, one.stream)
                for one in states
                if one.stream is not None and one.state == "running"
            ]
        return tuple(running)

    def stop_stream(self, execution: int, statement: int) -> None:
        """Stops one streaming statement; its committed rows stay. Raises NotFound."""
        self.execution(execution)
        with self._lock:
            if self._worker is not None:
                self._worker.send({"op": "stop", "execution": execution, "statement": statement})

    def state(self) -> TerminalState:
        with self._lock:
            worker, current = self._worker, self._current
            process = "none" if worker is None else "idle" if current is None else "busy"
            return TerminalState(
                process,
                None if worker is None else worker.pid,
                0 if worker is None else self._memory,
                self.config.limits.memory_bytes,
                len(self._waiting),
                None if current is None else current.id,
                len(self.streams()),
                0.0 if current is not None else monotonic_s() - self._idle_since,
            )

    def close(self) -> None:
        """Ends the process and its statements; decided epochs of streams are sealed first."""
        with self._lock:
            self._closed = True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()
        closed = Failure("Closed", "the terminal was closed")
        for execution in self.executions():
            execution.fail(closed, CANCELLED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _next(self) -> None:
        """Sends the next text to the worker, and starts one if there is none. Called under the lock."""
        if self._current is not None or not self._waiting or self._closed:
            return
        is_new = self._worker is None
        if self._worker is None:
            self._worker = WorkerProcess(self.config, self._receive, self._on_worker_end)
            self._memory, self._died = 0, None
            threading.Thread(target=self._watch, args=(self._worker,), name="terminal watch", daemon=True).start()
        execution = self._waiting.popleft()
        self._current = execution
        execution.begin()
        if is_new:
            execution.wait_for(
                "the process of the terminal starts", "this takes one or two seconds, and longer with Spark"
            )
        self._worker.send(
            {
                "op": "run",
                "execution": execution.id,
                "text": execution.text,
                "catalog": execution.catalog,
                "database": execution.database,
            }
        )

    def _receive(self, worker: WorkerProcess, message: Mapping[str, Any]) -> None:
        kind = message["kind"]
        with self._lock:
            execution = self._known.get(message.get("execution", 0))
            if worker is not self._worker or execution is None:
                return
        if kind != "idle":
            execution.receive(kind, message["statement"], self._with_reason(execution, message["data"]))
            return
        with self._lock:
            self._reasons.pop(execution.id, None)
            execution.free()
            if self._current is execution:
                self._current = None
            self._idle_since = monotonic_s()
            self._next()

    def _with_reason(self, execution: Execution, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Handles a message of the worker; a statement stopped by the time limit has that error."""
        reason = self._reasons.get(execution.id)
        if reason is None or data.get("state") != CANCELLED:
            return data
        return {**data, "state": FAILED, "error": reason.to_values()}

    def _on_worker_end(self, worker: WorkerProcess) -> None:
        """Handles the end of the process: its statements have failed, waiting ones run in a new process."""
        with self._lock:
            if worker is not self._worker:
                return
            self._worker = None
            failure = self._died or Failure(
                "ProcessEnded",
                f"the process of the terminal ended; Spark probably ran out of memory (its heap has "
                f"{self.config.limits.heap_bytes // _MIB} MiB): select fewer rows or columns; {_NEW_PROCESS}\n"
                f"{worker.last_output[-1000:]}".strip(),
            )
            self._current = None
            self._idle_since = monotonic_s()
            lost = [one for one in self._known.values() if not one.is_over and one not in self._waiting]
        for execution in lost:
            was_cancelled = self._cancelled_s.pop(execution.id, None) is not None
            reason = self._reasons.pop(execution.id, None)
            is_cancelled = (
                reason is None and was_cancelled and self._died is not None and self._died.kind == "Cancelled"
            )
            execution.fail(reason or failure, CANCELLED if is_cancelled else FAILED)
        with self._lock:
            self._next()

    def _cancel(self, execution: Execution) -> None:
        with self._lock:
            if execution.is_over:
                return
            if execution in self._waiting:
                self._waiting.remove(execution)
                execution.fail(Failure(_CANCELLED, "cancelled before it began"), CANCELLED)
                return
            self._cancelled_s.setdefault(execution.id, monotonic_s())
            if self._worker is not None:
                self._worker.send({"op": "cancel", "execution": execution.id})

    def _watch(self, worker: WorkerProcess) -> None:
        """Watches memory and time while the worker belongs to this terminal."""
        pause = threading.Event()
        while not pause.wait(_POLL_S):
            with self._lock:
                if worker is not self._worker:
                    return
                current, limits = self._current, self.config.limits
            self._memory = worker.memory_bytes()
            if self._memory > limits.memory_bytes:
                self._kill(worker, _too_much(self._memory, limits))
                return
            if current is not None:
                self._check_time(worker, current)
            elif monotonic_s() - self._idle_since > limits.idle_s and not self.streams():
                self._kill(worker, Failure("Idle", "the process had nothing to do"))
                return
            self._check_cancelled(worker)

    def _check_time(self, worker: WorkerProcess, current: Execution) -> None:
        since, limits = current.statement_since_s, self.config.limits
        if since is None or monotonic_s() - since <= limits.statement_s or current.id in self._reasons:
            return
        self._reasons[current.id] = Failure(
            "TimeLimit",
            f"the statement ran longer than {limits.statement_s:g} s, which is the limit here, and was stopped: read "
            f"fewer rows or partitions, or run it with `lakelog sql`",
        )
        self._cancel(current)

    def _check_cancelled(self, worker: WorkerProcess) -> None:
        """Ends the process if a cancelled statement does not end in time."""
        for number, since in list(self._cancelled_s.items()):
            execution = self._known.get(number)
            if execution is None or execution.is_over:
                self._cancelled_s.pop(number, None)
            elif monotonic_s() - since > self.config.limits.cancel_s:
                self._kill(
                    worker,
                    Failure(
                        "Cancelled",
                        f"it did not stop, so the process of the terminal was killed; {_NEW_PROCESS}",
                    ),
                )
                return

    def _kill(self, worker: WorkerProcess, why: Failure) -> None:
        with self._lock:
            if worker is not self._worker:
                return
            self._died = why
        worker.kill()

    def _forget(self) -> None:
        """Drops the oldest ended texts."""
        over = [number for number, one in self._known.items() if one.is_over]
        for number in over[: max(0, len(self._known) - self.config.limits.kept_executions)]:
            del self._known[number]

    def _note(self, execution: Execution, one: StatementState | None) -> None:
        """Writes an ended statement, or a text without a started statement, to the audit log."""
        if self._audit is None:
            return
        snapshot = execution.snapshot()
        error = snapshot.error if one is None else one.error
        state = snapshot.state if one is None else one.state
        self._audit.append(
            AuditEntry(
                time_ms=snapshot.submitted_ms if one is None or one.started_ms is None else one.started_ms,
                user=self.config.user,
                role=self.config.role.word,
                catalog=execution.catalog or self.config.catalog,
                database=execution.database or "default",
                text=execution.text if one is None else one.text,
                outcome="refused" if error is not None and error.refused else state,
                error=None if error is None else error.kind,
                duration_ms=None if one is None else one.elapsed_ms,
                rows=None if one is None else one.rows,
            )
        )


def _too_much(taken: int, limits: Limits) -> Failure:
    return Failure(
        "MemoryLimit",
        f"the process of the terminal took {taken // _MIB} MiB of memory, more than its limit of "
        f"{limits.memory_bytes // _MIB} MiB, and was ended: select fewer rows or columns, aggregate in the query, or "
        f"ask an administrator to raise the limit; {_NEW_PROCESS}",
    )


def _absolute(location: str) -> str:
    """An absolute path, because the worker has another working directory."""
    if scheme_of(location) != "file" or location.startswith("file:"):
        return location
    return str(Path(location).absolute())


def _with_absolute_warehouses(catalogs: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    out = {}
    for name, options in catalogs.items():
        texts = {key: str(value) for key, value in options.items()}
        with contextlib.suppress(KeyError):
            texts["warehouse"] = _absolute(texts["warehouse"])
        out[name] = texts
    return out
