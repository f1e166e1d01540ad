"""Rows of this process that a lake writes without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest


def test_what_has_no_columns_is_refused_and_nothing_is_written(tmp_path) -> None:
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql("create table db.t (id bigint, primary key (id))")
        with pytest.raises(InvalidRequest, match="cannot write SimpleNamespace: give an Arrow table"):
            lake.write(SimpleNamespace(id=[1]), "db.t")
        assert lake.table("db.t").scan().to_arrow().num_rows == 0


def test_an_overwrite_replaces_the_table_or_partitions_without_spark(tmp_path) -> None:
    with connect(tmp_path / "warehouse") as lake:
        lake.create_table("db.t", {"id": "bigint", "day": "string"}, partition_by="day")
        lake.write(pl.DataFrame({"id": [1, 2], "day": ["mon", "tue"]}), "db.t")
        counts = lake.write(pl.DataFrame({"id": [3], "day": ["mon"]}), "db.t", overwrite=True)
        assert counts == {
            "num_affected_rows": None,
            "num_updated_rows": 0,
            "num_deleted_rows": None,
            "num_inserted_rows": 1,
        }
        assert sorted(lake.table("db.t").scan().to_polars().rows()) == [(2, "tue"), (3, "mon")]
        lake.write(pl.DataFrame({"id": [4], "day": ["tue"]}), "db.t", overwrite={"day": "tue"})
        assert sorted(lake.table("db.t").scan().to_polars().rows()) == [(3, "mon"), (4, "tue")]
        whole = {"dynamic-partition-overwrite": "false"}
        lake.write(pl.DataFrame({"id": [5], "day": ["wed"]}), "db.t", whole, overwrite=True)
        assert lake.table("db.t").scan().to_polars().rows() == [(5, "wed")]
        with pytest.raises(InvalidRequest, match="only day = 'tue' is overwritten"):
            lake.write(pl.DataFrame({"id": [6], "day": ["thu"]}), "db.t", overwrite={"day": "tue"})
        assert lake.table("db.t").scan().to_polars().rows() == [(5, "wed")]


def test_an_overwrite_creates_a_missing_table_on_request(tmp_path) -> None:
    with connect(tmp_path / "warehouse") as lake:
        for _ in range(2):
            lake.write(pl.DataFrame({"id": [1]}), "db.t", create=True, overwrite=True)
        assert lake.table("db.t").scan().to_polars().rows() == [(1,)]
