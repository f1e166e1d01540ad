"""One terminal of each role for the tests of a file; none of them needs Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog.service.terminal import AuditLog, Privilege, Terminal, TerminalConfig
from terminals import done

TABLE = "CREATE TABLE db.t (id INT, name STRING, PRIMARY KEY (id)) USING lakelog"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("terminal") / "warehouse")


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    return AuditLog(tmp_path_factory.mktemp("audit") / "statements.jsonl")


@pytest.fixture(scope="module")
def admin(warehouse: str, audit: AuditLog) -> Iterator[Terminal]:
    with Terminal(TerminalConfig(warehouse, role=Privilege.ADMIN, user="ann"), audit) as terminal:
        done(terminal, f"CREATE DATABASE IF NOT EXISTS db; {TABLE}")
        yield terminal


@pytest.fixture(scope="module")
def writer(warehouse: str, admin: Terminal) -> Iterator[Terminal]:
    with Terminal(TerminalConfig(warehouse, role=Privilege.WRITE, user="will")) as terminal:
        yield terminal


@pytest.fixture(scope="module")
def reader(warehouse: str, admin: Terminal) -> Iterator[Terminal]:
    with Terminal(TerminalConfig(warehouse, role=Privilege.READ, user="rita")) as terminal:
        yield terminal
