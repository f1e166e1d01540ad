"""A tail that ends is an Arrow stream: other libraries take it; one without end says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakelog import Table
from lakelog.errors import InvalidRequest
from lakelog.table.tail.tail import Tail
from log_tables import make, rows

TAKES = {
    "polars": lambda tail: pl.DataFrame(tail).to_arrow(),
    "pyarrow": pa.table,
    "pyarrow reader": lambda tail: pa.RecordBatchReader.from_stream(tail).read_all(),
    "pandas": lambda tail: pa.Table.from_pandas(pd.DataFrame.from_arrow(tail)),
    "to_arrow": Tail.to_arrow,
    "to_polars": lambda tail: tail.to_polars().to_arrow(),
    "to_pandas": lambda tail: pa.Table.from_pandas(tail.to_pandas()),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make(tmp_path)
    for number in range(3):
        made.write(rows(2 * number, 2 * number + 1))
    return made


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_a_tail_with_an_end_is_a_table_of_its_rows(table: Table, take: Any) -> None:
    found = take(table.tail("earliest", stop="latest"))
    assert sorted(found["id"].to_pylist()) == [0, 1, 2, 3, 4, 5]
    assert set(found["_row_kind"].to_pylist()) == {"+I"}
    narrow = take(table.tail("earliest", stop="latest", columns=["id"]))
    assert narrow.column_names == ["id", "_row_kind"]


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_a_tail_without_rows_is_an_empty_table(table: Table, take: Any) -> None:
    found = take(table.tail("latest", stop="latest"))
    assert (found.num_rows, found.column_names) == (0, [*table.schema.names, "_row_kind"])


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_a_tail_without_an_end_does_not_hang(table: Table, take: Any) -> None:
    with pytest.raises(InvalidRequest, match="never ends, so its rows are not one table: pass stop='latest'"):
        take(table.tail("earliest"))


def test_a_tail_shows_what_it_is(table: Table) -> None:
    assert repr(table.tail()) == f"Tail({table.name}; follows without end)"
    assert repr(table.tail(stop="latest")) == f"Tail({table.name}; ends)"
    assert table.tail().schema.names == [*table.schema.names, "_row_kind"]
