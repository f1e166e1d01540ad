"""Other readers of the same tables: Paimon's Java core in a JVM of its own, pypaimon in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from flink_sql import FlinkSql
from paimon_java import BUNDLE, PaimonJava

from lakelog.service.servers.jars import resolve_jars

PYPAIMON = Path(__file__).parents[2] / ".venv-pypaimon" / "bin" / "python"

ReadRows = Callable[[str | dict[str, str], str], list[dict[str, Any]]]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says how many tables that lakelog wrote each other reader reads as lakelog does."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, []) if r.when == "call"]
    agreeing = Counter(reader for r in reports for key, reader in r.user_properties if key == "agrees")
    for reader, count in agreeing.items():
        terminalreporter.write_line(f"{reader} agrees on {count} tables written here")


@pytest.fixture(scope="session")
def java() -> Iterator[PaimonJava]:
    with PaimonJava(resolve_jars([BUNDLE])) as paimon:
        yield paimon


@pytest.fixture(scope="session")
def flink_sql() -> Iterator[FlinkSql]:
    with FlinkSql() as flink:
        yield flink


@pytest.fixture(scope="session")
def pypaimon_rows() -> Iterator[ReadRows]:
    """Reads all rows of a table of a warehouse (or of a catalog by its options) with pypaimon, as the golden files have
    them.
    """
    script = Path(__file__).with_name("read_with_pypaimon.py")
    process = subprocess.Popen(
        [str(PYPAIMON), str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )

    def read(warehouse: str | dict[str, str], name: str) -> list[dict[str, Any]]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([warehouse, name]) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    yield read
    process.communicate("", timeout=120)
