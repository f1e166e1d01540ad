"""Every view of every golden table, as Paimon reads it: states, tags, branches, changes, streams, system tables."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "golden_report.py"
GOLDEN: dict[str, Any] = runpy.run_path(str(SCRIPT))
VIEWS = [(name, view) for name in GOLDEN["table_names"]() for view in GOLDEN["expected_views"](name)]


@pytest.mark.parametrize(("name", "view"), VIEWS, ids=[f"{name}-{view}" for name, view in VIEWS])
def test_a_view_is_read_as_paimon_reads_it(name: str, view: str) -> None:
    assert GOLDEN["read_view"](name, view) == GOLDEN["expected_views"](name)[view]


def test_all_kinds_of_views_are_among_them() -> None:
    kinds = {view.partition(":")[0] for _, view in VIEWS}
    assert kinds >= {"scan", "audit_log", "binlog", "snapshot", "tag", "branch", "incremental", "stream-from-1", "sys"}


def test_the_report_fails_when_a_view_is_different(tmp_path: Path) -> None:
    (tmp_path / "append_unaware").symlink_to(GOLDEN["DATA"] / "append_unaware")
    (tmp_path / "append_unaware.expected.jsonl").write_text('{"view":"scan","row":{"x":1}}\n', encoding="utf-8")
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "append_unaware scan: different" in done.stdout
