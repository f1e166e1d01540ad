"""How many terminals one user may have, so that others get one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakelog.errors import InvalidRequest
from lakelog.service.access.identity import Identity
from lakelog.service.access.sessions import Session
from lakelog.service.dashboard.live.terminals import Terminals
from lakelog.service.dashboard.settings import DashboardSettings
from lakelog.service.terminal.audit import AuditLog
from lakelog.service.terminal.terminal import Terminal
from lakelog.sql.runtime.statement import Privilege


def logged_in(user: str, key: str) -> Identity:
    return Identity(user, Privilege.READ, Session(key, user, Privilege.READ, "", 0, 0.0))


def test_one_user_does_not_take_all_terminals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminals = Terminals(DashboardSettings(str(tmp_path)), AuditLog(tmp_path / "audit.jsonl"))
    real = Terminal.state
    monkeypatch.setattr(Terminal, "state", lambda self: replace(real(self), process="busy"))
    for number in range(3):
        terminals.open(logged_in("ann", f"a{number}"))
    with pytest.raises(InvalidRequest, match="3 of them of user 'ann'"):
        terminals.open(logged_in("ann", "a3"))
    assert terminals.open(logged_in("bob", "b")).config.user == "bob"
    with pytest.raises(InvalidRequest, match="limit is 4"):
        terminals.open(logged_in("cid", "c"))
    terminals.close_session("a0")
    assert terminals.open(logged_in("cid", "c")).config.user == "cid"


def test_an_idle_terminal_of_the_user_with_most_gives_its_place(tmp_path: Path) -> None:
    terminals = Terminals(DashboardSettings(str(tmp_path), terminals=5), AuditLog(tmp_path / "audit.jsonl"))
    for number in range(4):
        terminals.open(logged_in("ann", f"a{number}"))  # forgotten logins
    terminals.open(logged_in("bob", "b"))
    assert terminals.open(logged_in("cid", "c")).config.user == "cid"
    assert terminals.of(logged_in("bob", "b")) is not None
    assert sum(terminals.of(logged_in("ann", f"a{number}")) is not None for number in range(4)) == 3
