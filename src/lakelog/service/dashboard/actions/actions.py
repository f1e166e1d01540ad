"""The actions that users have started on the pages of a dashboard, with their progress."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound
from lakelog.io.clock import now_ms
from lakelog.service.access.identity import Identity
from lakelog.service.child_process import Pipe, start_module
from lakelog.service.terminal.audit import AuditEntry
from lakelog.table.health.actions import KINDS

RUNNING: Final = "running"
FAILED: Final = "failed"
CALLED: Final = (
    "create_tag", "delete_tag", "create_branch", "delete_branch", "reset_consumer", "end_writer", "replay_rejected",
)  # fmt: skip
"""Procedures that a page can call."""
ACTIONS: Final = (*KINDS, *CALLED)
_MODULE: Final = "lakelog.service.dashboard.actions.process"
_PARALLEL: Final = 2
_MOST_FINISHED: Final = 50


@dataclass(frozen=True)
class Action:
    """One action. ``state`` is running or an outcome (done, nothing to do, stopped, waits, failed).

    ``kind`` is one of maintenance, or the name of a procedure, which has ``arguments``. ``done`` of ``total`` buckets
    are complete, if known.
    """

    id: int
    table: str
    kind: str
    user: str
    started_ms: int
    arguments: Mapping[str, str] = field(default_factory=dict)
    state: str = RUNNING
    detail: str = ""
    done: int = 0
    total: int = 0

    @property
    def text(self) -> str:
        """The action with its table and arguments, for the audit log."""
        return " ".join([self.kind, self.table, *(f"{name}={value}" for name, value in self.arguments.items())])


class Actions:
    """Runs actions, two at a time. ``connection`` are the arguments of ``lakelog.connect``. Thread-safe."""

    def __init__(self, connection: dict[str, Any], audit: Callable[[AuditEntry], None]) -> None:
        self._connection, self._audit = connection, audit
        self._numbers = itertools.count(1)
        self._known: dict[int, Action] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._pool = ThreadPoolExecutor(_PARALLEL, "action")
        self._lock = threading.Lock()

    def start(self, identity: Identity, table: str, kind: str, arguments: Mapping[str, str]) -> Action:
        """Starts an action and returns at once. Raises InvalidRequest, and AlreadyExists if the same one runs."""
        if kind not in ACTIONS:
            raise InvalidRequest(f"unknown action '{kind}'; known: {', '.join(ACTIONS)}")
        if kind not in CALLED and arguments:
            raise InvalidRequest(f"{kind} takes no arguments")
        with self._lock:
            for other in self._known.values():
                if (other.table, other.kind, other.arguments, other.state) == (table, kind, arguments, RUNNING):
                    raise AlreadyExists(f"{kind} of {table} is already running, started by {other.user}")
            action = Action(next(self._numbers), table, kind, identity.user, now_ms(), arguments)
            self._known[action.id] = action
            for old in [one for one in self._known.values() if one.state != RUNNING][:-_MOST_FINISHED]:
                del self._known[old.id]
        self._pool.submit(self._run, action, identity)
        return action

    def get(self, number: int) -> Action:
        """The current state of an action. Raises NotFound."""
        with self._lock:
            if number not in self._known:
                raise NotFound(f"no action {number}")
            return self._known[number]

    def list(self) -> Sequence[Action]:
        """The running actions and the last that have ended, newest first."""
        with self._lock:
            return sorted(self._known.values(), key=lambda one: -one.id)

    def close(self) -> None:
        """Ends the running actions; their next run continues."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for process in self._processes.values():
                process.kill()

    def _run(self, action: Action, identity: Identity) -> None:
        outcome = {"outcome": FAILED, "detail": "the process of the action ended without a result"}
        try:
            outcome = self._run_process(action) or outcome
        finally:
            self._change(action.id, state=outcome["outcome"], detail=outcome["detail"])
            is_done = outcome["outcome"] != FAILED
            took = now_ms() - action.started_ms
            entry = AuditEntry(
                action.started_ms, action.user, identity.role.word, "", "", action.text, "done" if is_done else FAILED,
                None if is_done else "ActionFailed", took, kind="action",
                address=identity.session.address if identity.session else "",
            )  # fmt: skip
            self._audit(entry)

    def _run_process(self, action: Action) -> dict[str, str] | None:
        ended = None
        with start_module(_MODULE) as process:
            with self._lock:
                self._processes[action.id] = process
            pipe = Pipe.to_child(process)
            asked = {"table": action.table, "kind": action.kind, "arguments": dict(action.arguments)}
            reason = f"started by {action.user} on the dashboard"
            pipe.send({"connect": self._connection, "reason": reason, **asked})
            for event in pipe.messages():
                if "outcome" in event:
                    ended = event
                else:
                    self._change(action.id, done=event["done"], total=event["total"])
        with self._lock:
            self._processes.pop(action.id, None)
        return ended

    def _change(self, number: int, **what: Any) -> None:
        with self._lock:
            self._known[number] = replace(self._known[number], **what)
