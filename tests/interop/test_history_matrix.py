"""Tables with a past made here: Paimon and pypaimon read every view as lakelog does, and Paimon goes on with them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from paimon_views import write_expected
from written_histories import HISTORIES

from lakelog import Lake, connect
from printed import canonical, printed_rows

SCRIPT = Path(__file__).parents[2] / "scripts" / "golden_report.py"
GOLDEN: dict[str, Any] = runpy.run_path(str(SCRIPT))

PYPAIMON_FAILS: dict[str, str] = {}
"""Histories that pypaimon 2.1 reads wrong or not at all, although Paimon's Java core reads them right."""


def different_views(java: Any, directory: Path, name: str) -> dict[str, tuple[str, str]]:
    write_expected(java, directory, name)
    views = GOLDEN["expected_views"](name, directory)
    assert {"scan", "sys:files", "sys:snapshots", "sys:manifests"} <= set(views)
    outcomes = {view: GOLDEN["outcome"](name, view, rows, directory) for view, rows in views.items()}
    return {view: outcome for view, outcome in outcomes.items() if outcome[0] != "equal"}


def ours(lake: Lake, name: str) -> list[str]:
    return sorted(map(canonical, printed_rows(lake.table(f"g.{name}").scan().to_arrow())))


def theirs(java: Any, lake: Lake, name: str) -> list[str]:
    names = java.names(lake.warehouse, "g", name)
    found = java.rows(lake.warehouse, "g", name)
    return sorted(canonical(dict(zip(names, row, strict=True))) for row in found)


def go_on_there(java: Any, lake: Lake, name: str) -> None:
    """Paimon writes a row, and compacts the bucket 0 of its partition where the table has a key."""
    table = lake.table(f"g.{name}")
    row = [{"p": "a", "id": 200}.get(column) for column in table.schema.names]
    bucket_of = (lambda row: 0) if table.primary_keys and table.options["bucket"] == "-1" else None
    partition = ("a",) if "p" in table.primary_keys else None
    compact = (0,) if table.primary_keys else ()
    java.write(lake.warehouse, "g", name, [row], compact=compact, bucket_of=bucket_of, partition=partition)


@pytest.mark.parametrize("name", HISTORIES)
def test_every_view_of_a_past_made_here_is_the_same_there(
    java, pypaimon_rows, record_property, tmp_path, name: str
) -> None:
    with connect(warehouse=str(tmp_path / name)) as lake:
        lake.sql("create database g")
        HISTORIES[name](lake, name)
        assert different_views(java, tmp_path, name) == {}
        record_property("agrees", "Paimon's Java core")
        if name not in PYPAIMON_FAILS:
            assert sorted(map(canonical, pypaimon_rows(lake.warehouse, f"g.{name}"))) == ours(lake, name)
            record_property("agrees", "pypaimon")
        go_on_there(java, lake, name)
        assert ours(lake, name) == theirs(java, lake, name)
        lake.table(f"g.{name}").compact()
        assert ours(lake, name) == theirs(java, lake, name)
