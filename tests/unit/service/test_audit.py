"""The audit log: masked, bounded, readable after a torn line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.service.terminal import AuditEntry, AuditLog
from lakelog.sql.syntax.source_text import without_secrets


def entry(number: int, text: str = "SELECT 1") -> AuditEntry:
    return AuditEntry(number, "ann", "read", "lakelog", "db", text, "done", None, 5, 1)


def test_old_files_are_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit" / "log.jsonl", max_bytes=400, kept=2)
    for number in range(12):
        log.append(entry(number))
    assert sorted(path.name for path in log.path.parent.iterdir()) == ["log.jsonl", "log.jsonl.1", "log.jsonl.2"]
    assert all(path.stat().st_size <= 400 for path in log.path.parent.iterdir())
    found = [one.time_ms for one in log.newest(100)]
    assert found == list(range(11, 11 - len(found), -1)) and len(found) >= 4
    assert [one.time_ms for one in log.newest(3)] == [11, 10, 9]


def test_a_torn_line_hides_no_other(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log.jsonl")
    log.append(entry(1))
    with log.path.open("ab") as file:
        file.write(b'{"time_ms": 2, "us\n')
    log.append(entry(3))
    assert [one.time_ms for one in log.newest()] == [3, 1]


@pytest.mark.parametrize(
    "text",
    [
        "WITH ('s3.secret-key' = 'hunter2')",
        "TBLPROPERTIES ('properties.sasl.password' 'hunter2')",
        'OPTIONS ("fs.oss.accessKeySecret" = "hunter2")',
        "SET 'catalog.token' = 'hunter2'",
        "WITH (`dlf.token` = 'hun\nter2 hunter2 it''s hunter2')",
        "WITH ('s3.secret-key' = 'hunter2",
        "SET s3.secret-key = 'hunter2'",
        "'jdbc.uri' = 'jdbc:postgresql://ann:hunter2@host/db'",
    ],
)
def test_no_secret_is_in_a_line(tmp_path: Path, text: str) -> None:
    log = AuditLog(tmp_path / "log.jsonl")
    log.append(entry(1, text))
    assert "hunter2" not in log.path.read_text()


def test_what_is_no_secret_stays() -> None:
    text = "SELECT 'password', name FROM t WHERE a = 'x' AND `log-store.type` = 'kafka'"
    assert without_secrets(text) == text


def test_masking_takes_time_by_the_length_of_the_text() -> None:
    assert without_secrets("a" * 1_000_000) == "a" * 1_000_000
