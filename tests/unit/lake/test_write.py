"""Rows of this process that a lake writes without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest


@pytest.mark.parametrize("of", [pa.table, pl.DataFrame, pd.DataFrame])
def test_rows_of_this_process_need_no_spark(of, tmp_path) -> None:
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql("create table db.t (id bigint, name string, primary key (id))")
        lake.write(of({"id": [1, 2], "name": ["a", "b"]}), "db.t")
        lake.write(of({"id": [2], "name": ["c"]}), "db.t")
        rows = lake.table("db.t").scan().to_arrow().sort_by("id")
        assert rows.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "c"}]


def test_what_has_no_columns_is_refused_and_nothing_is_written(tmp_path) -> None:
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql("create table db.t (id bigint, primary key (id))")
        with pytest.raises(InvalidRequest, match="cannot write SimpleNamespace: give an Arrow table"):
            lake.write(SimpleNamespace(id=[1]), "db.t")
        assert lake.table("db.t").scan().to_arrow().num_rows == 0
