"""Statements of users, in one process per user, with limits, privileges and an audit log.

``Terminal(TerminalConfig(warehouse, role=Privilege.WRITE, user="ann")).submit("SELECT …")`` returns an ``Execution``.
Its ``events(after=…)`` are columns, rows, progress and the end, and can be read again from any position.
"""

from __future__ import annotations

from lakelog.service.terminal.audit import AuditEntry, AuditLog
from lakelog.service.terminal.execution import Execution, ExecutionState, StatementState
from lakelog.service.terminal.protocol.config import Limits, TerminalConfig
from lakelog.service.terminal.protocol.error_report import Failure
from lakelog.service.terminal.protocol.events import Event
from lakelog.service.terminal.terminal import StreamState, Terminal, TerminalState
from lakelog.sql.runtime.statement import Privilege

__all__ = [
    "AuditEntry", "AuditLog", "Event", "Execution", "ExecutionState", "Failure", "Limits", "Privilege",
    "StatementState", "StreamState", "Terminal", "TerminalConfig", "TerminalState",
]  # fmt: skip
