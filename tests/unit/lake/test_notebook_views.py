"""What a notebook and a terminal show of the values that a table returns: short, escaped, without heavy imports."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake, Table
from lakelog.options.notebook import NotebookView, ShownText, ViewList


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    opened = lakelog.connect(tmp_path / "warehouse")
    options = {"bucket": 1, "log-store.enabled": True}
    opened.create_table("db.t", {"id": "int", "name": "string"}, primary_key="id", options=options)
    opened.write(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "name": ["a", "b", None]}), "db.t")
    return opened


@pytest.fixture
def table(lake: Lake) -> Table:
    return lake.table("db.t")


def test_a_notebook_shows_each_value_as_a_short_table(lake: Lake, table: Table) -> None:
    table.create_tag("v1")
    shown: dict[str, tuple[Any, list[str]]] = {
        "lake": (lake, ["<td>db</td><td>db.t</td>", "<th>tables</th>"]),
        "table": (table, ["db.t", "<td>name</td><td>string</td>", "primary key: id"]),
        "scan": (table.scan(["id"], "id > 1"), ["<td>filter</td><td>id &gt; 1", "<td>result</td><td>id int32"]),
        "old scan": (table.scan(snapshot_id=1), ["<td>snapshot</td><td>1</td>"]),
        "plan": (table.scan().plan(), ["1 × Split", "<th>files</th>", "<td>1</td>"]),
        "changes": (table.scan(incremental_between=(0, 1)).plan(), ["1 × ChangeSplit", "<th>bucket</th>"]),
        "changes scan": (table.scan(incremental_between=(0, 1)), ["<td>after snapshot</td><td>0</td>"]),
        "union": (table.scan(options={"read.mode": "union"}).plan(), ["<th>merge</th>"]),
        "explained": (table.scan().explain(), ["<pre>Scan(db.t", "files: 1 of 1"]),
        "split": (table.scan().plan()[0], ["<b>Split</b>", "<td>rows</td><td>3</td>"]),
        "snapshot": (table.latest_snapshot(), ["<b>Snapshot</b>", "<td>kind</td><td>APPEND</td>", "<td>+3</td>"]),
        "snapshots": (table.snapshots(), ["1 × Snapshot", "<th>committed</th>"]),
        "tags": (table.tags(), ["<td>v1</td><td>never</td>"]),
        "stream plan": (next(iter(table.stream_plan())), ["<b>StreamPlan</b>", "<td>splits</td><td>1</td>"]),
        "compaction": (table.compact(), ["<b>CompactionSummary</b>", "<td>files</td><td>1 → 1</td>"]),
        "manifests": (table.compact_manifests(), ["<b>ManifestSummary</b>", "<td>manifests before</td>"]),
        "orphans": (table.remove_orphan_files(dry_run=True), ["<td>files</td><td>0</td>"]),
        "health": (table.health(), ["<b>TableHealth</b>", " of 100</td>"]),
        "rejected": (table.replay_rejected(), ["<td>written</td><td>0</td>"]),
    }
    for name, (value, parts) in shown.items():
        html = value._repr_html_()
        assert [part for part in parts if part not in html] == [], f"{name}: {html}"
        assert len(html) < 1_000, name
        assert len(repr(value)) < 500, name


def test_html_is_escaped(lake: Lake) -> None:
    table = lake.create_table("db.other", {"<b>x": "string"})
    assert "<b>x" not in table.scan()._repr_html_().replace("<b>Scan", "")
    assert "&lt;b&gt;x string" in table.scan()._repr_html_()
    assert "&lt;i&gt;" in ShownText("<i>")._repr_html_()


def test_a_long_list_shows_its_start_and_its_end(table: Table) -> None:
    first = table.snapshots()[0]
    many = ViewList([first] * 500 + [first])
    assert len(repr(many).splitlines()) == 21
    assert "… 481 more …" in repr(many) and "… 481 more …" in many._repr_html_()
    assert many._repr_html_().count("<tr>") == 22
    assert repr(ViewList()) == "[]" and "empty list" in ViewList()._repr_html_()


def test_explain_prints_as_text_with_lines(table: Table) -> None:
    explained = table.scan().explain()
    assert repr(explained) == str(explained) and len(repr(explained).splitlines()) == 3
    assert isinstance(table.scan(options={"read.mode": "union"}).explain(), ShownText)


def test_views_are_still_values(table: Table) -> None:
    plan = table.scan().plan()
    assert pickle.loads(pickle.dumps(plan)) == plan == list(plan)
    assert pickle.loads(pickle.dumps(table.snapshots())) == [table.latest_snapshot()]


def test_snapshots_are_listed_with_the_newest_last(lake: Lake, table: Table) -> None:
    lake.write(pa.table({"id": pa.array([4], pa.int32()), "name": ["d"]}), "db.t")
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]
    assert table.snapshots()[-1] == table.latest_snapshot()
    assert lake.create_table("db.empty", {"id": "int"}).snapshots() == []


def test_views_import_nothing_heavy() -> None:
    script = (
        "import sys, lakelog.options.notebook; print([m for m in ('pyarrow', 'polars', 'IPython') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_view_without_facts_of_its_own_shows_its_fields() -> None:
    class Pair(NotebookView):
        def __init__(self) -> None:
            self.rows_before, self.empty, self.nothing = 1234, "", None

    assert Pair()._repr_html_().count("<tr>") == 1
    assert "<td>rows before</td><td>1,234</td>" in Pair()._repr_html_()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("id > 1 and (name = 'a' or name is null)", "id > 1 and (name = 'a' or name is null)"),
        ("not (id in (1, 2)) and name like 'a%'", "(id != 1 and id != 2) and name starts with 'a'"),
        ("id in (1, 2, 3, 4, 5, 6)", "id in (1, 2, 3, 4, 5, …)"),
        ("name is not null", "name is not null"),
    ],
)
def test_a_filter_is_shown_as_a_person_writes_it(table: Table, given: str, text: str) -> None:
    assert f"filter: {text}" in repr(table.scan(filter=given))
