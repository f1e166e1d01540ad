"""The column of lakelog in docs/reference/statements.md is true: what says yes works, what says no is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import Lake

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "statements.md"


def told_by_the_page() -> dict[str, str]:
    """Title of a statement → what the page says of lakelog."""
    page = PAGE.read_text(encoding="utf-8")
    lines = page[page.index("\n## ") :].splitlines()
    rows = (line.split(" | ") for line in lines if line.startswith("| ") and not line.startswith("| |"))
    return {cells[0].removeprefix("| "): cells[1] for cells in rows}


def test_every_statement_does_what_the_page_says(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from statements import read_statements
    from statements_side import Tables, attempt

    class Filled(Tables):
        """Its rows come without Spark."""

        def fill(self, table: str, row: str) -> None:
            values: dict[str, Any] = {"id": [1], "info": [{"a": 1, "b": "x"}]}
            if "nested" not in table:
                number, name, day = (part.strip() for part in row.strip("()").split(","))
                days = pa.array([day.split("'")[1]]).cast(pa.date32())
                values = {"id": [int(number)], "name": [name.strip("'")], "day": days}
            opened = lake.table(table)
            opened.write(pa.table(values).cast(opened.schema))

    tables = Filled("lakelog", lake.sql, tmp_path)
    page, found, expected = told_by_the_page(), {}, {}
    for statement in read_statements():
        expected[statement.title] = page[statement.title].partition(":")[0]
        text = statement.of("lakelog")
        answer = "none" if text is None else attempt(tables, statement.key, text)
        found[statement.title] = answer.partition(":")[0]
        lake.sql("use db")
    assert found == expected
    assert list(page) == list(found)
