"""Examples in the docstrings of the public methods print what they say; each has the same small table."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl
import pytest

import lakelog
from lakelog import Lake, Table
from lakelog.table.write.table_writer import TableWriter

_BLOCK: Final = re.compile(r"```pycon\n(.*?)```", re.DOTALL)
EXAMPLES: Final = {
    f"{owner.__name__}.{name}": "\n".join(blocks)
    for owner in (Lake, Table, TableWriter)
    for name, member in inspect.getmembers(owner)
    if not name.startswith("_") and (blocks := _BLOCK.findall(inspect.getdoc(member) or ""))
}
EVERY_DAY: Final = (
    "Lake.create_table", "Lake.sql", "Lake.table", "Lake.write", "Table.add_column", "Table.append", "Table.count",
    "Table.create_tag", "Table.delete", "Table.merge", "Table.rollback_to", "Table.scan", "Table.snapshots",
    "Table.tail", "Table.update", "Table.upsert", "Table.write", "Table.writer", "TableWriter.commit",
)  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with lakelog.connect(tmp_path) as opened:
        yield opened


def test_the_methods_of_every_day_have_an_example() -> None:
    assert set(EVERY_DAY) - set(EXAMPLES) == set()


@pytest.mark.parametrize("method", EXAMPLES)
def test_an_example_prints_what_it_says(method: str, lake: Lake) -> None:
    columns, options = {"id": "bigint", "name": "string"}, {"log-store.enabled": True}
    table = lake.create_table("db.t", columns, primary_key="id", options=options)
    table.write(pl.DataFrame({"id": [1, 2], "name": ["tea", "milk"]}))
    names = {"lake": lake, "t": table, "pl": pl}
    output: list[str] = []
    example = doctest.DocTestParser().get_doctest(EXAMPLES[method], names, method, None, None)
    doctest.DocTestRunner(verbose=False).run(example, out=output.append)
    assert "".join(output) == ""
