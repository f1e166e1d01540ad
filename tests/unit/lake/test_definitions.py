"""Databases and tables are made, renamed and dropped from Python, without SQL and without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake
from lakelog.errors import AlreadyExists, InvalidOption, InvalidRequest, InvalidSchema, NotFound, UnsupportedFeature

ARROW = pa.schema([pa.field("id", pa.int64(), False), ("name", pa.string())])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakelog.connect(tmp_path / "warehouse") as opened:
        yield opened
        assert not opened._engine.is_started


@pytest.mark.parametrize(
    "schema",
    [
        ARROW,
        ARROW.empty_table(),
        pa.record_batch({"id": pa.array([1]), "name": ["a"]}),
        pl.DataFrame({"id": [1], "name": ["a"]}),
        pl.LazyFrame({"id": [1], "name": ["a"]}),
        pl.Schema({"id": pl.Int64, "name": pl.String}),
        pd.DataFrame({"id": [1], "name": ["a"]}),
        {"id": "bigint not null", "name": "string"},
        {"id": pa.int64(), "name": pl.String},
    ],
    ids=lambda schema: type(schema).__name__,
)
def test_a_table_has_the_columns_of_any_kind_of_schema(lake: Lake, schema: object) -> None:
    table = lake.create_table("db.t", schema, primary_key="id", options={"bucket": 2}, comment="people")
    assert table.schema == pa.schema([pa.field("id", pa.int64(), False), ("name", pa.string())])
    assert (table.primary_keys, table.options["bucket"]) == (("id",), "2")
    lake.write(pl.DataFrame({"id": [1, 1], "name": ["a", "b"]}), "db.t")
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "name": "b"}]


def test_the_table_is_the_one_that_create_table_makes(lake: Lake) -> None:
    schema = {"id": "int", "day": "date", "price": "decimal(10, 2)", "tags": "array<string>"}
    made = lake.create_table(
        "db.python", schema, primary_key=["day", "id"], partition_by="day", options={"bucket": 1}, comment="c"
    )
    lake.run(
        "create table db.sql (id int, day date, price decimal(10, 2), tags array<string>, primary key (day, id)) "
        "comment 'c' partitioned by (day) tblproperties ('bucket' = '1')"
    )
    ours, theirs = made.definition, lake.table("db.sql").definition
    assert (ours.fields, ours.primary_keys, ours.partition_keys, ours.comment, ours.options["bucket"]) == (
        theirs.fields, theirs.primary_keys, theirs.partition_keys, theirs.comment, theirs.options["bucket"]
    )  # fmt: skip


def test_none_is_no_key_and_no_partition(lake: Lake) -> None:
    table = lake.create_table("db.t", ARROW, primary_key=None, partition_by=None)
    assert (table.primary_keys, table.definition.partition_keys) == ((), ())


def test_a_table_is_created_once_without_if_not_exists(lake: Lake) -> None:
    lake.create_table("db.t", ARROW)
    with pytest.raises(AlreadyExists, match=r"db\.t"):
        lake.create_table("db.t", {"x": "int"})
    assert lake.create_table("db.t", {"x": "int"}, if_not_exists=True).schema.names == ["id", "name"]


@pytest.mark.parametrize(
    ("schema", "more", "error", "text"),
    [
        (3, {}, InvalidSchema, "int is not a schema"),
        ({"id": 3}, {}, InvalidSchema, "column 'id': 3 is not a type"),
        ({"id": "bigintt"}, {}, InvalidRequest, "bigintt"),
        ({}, {}, InvalidSchema, "column"),
        (pa.schema([("n", pa.uint64())]), {}, UnsupportedFeature, "uint64"),
        (ARROW, {"primary_key": "ID2"}, InvalidSchema, "ID2"),
        (ARROW, {"options": {"buckett": 1}}, InvalidOption, "unknown option 'buckett' = '1', did you mean 'bucket'"),
        (ARROW, {"options": {"bucket": "four"}}, InvalidOption, "'bucket' = 'four'"),
        (ARROW, {"options": {"log-store.enable": "yess"}}, InvalidOption, "'log-store.enabled' = 'yess'"),
        (ARROW, {"options": {"emit.mode": "both"}}, InvalidOption, "auto, file, log, file,log"),
    ],
)
def test_a_bad_definition_makes_nothing(lake, schema, more, error, text) -> None:
    with pytest.raises(error, match=text):
        lake.create_table("db.t", schema, **more)
    assert not lake.table_exists("db.t")


def test_tables_are_renamed_and_dropped(lake: Lake) -> None:
    lake.create_table("db.t", ARROW)
    lake.rename_table("db.t", "u")
    assert (lake.table_exists("db.t"), lake.table_exists("db.u"), lake.list_tables()) == (False, True, ["db.u"])
    lake.create_table("db.t", ARROW)
    with pytest.raises(AlreadyExists):
        lake.rename_table("db.t", "db.u")
    with pytest.raises(NotFound):
        lake.rename_table("db.none", "db.v")
    lake.drop_table("db.t")
    with pytest.raises(NotFound):
        lake.drop_table("db.t")
    lake.drop_table("db.t", if_exists=True)
    assert lake.list_tables() == ["db.u"]


def test_databases_are_made_and_dropped_in_every_catalog(lake: Lake, tmp_path: Path) -> None:
    lake.add_catalog("other", tmp_path / "other")
    for name, catalog in (("a", "lakelog"), ("other.a", "other")):
        lake.create_database(name)
        lake.create_database(name, if_not_exists=True)
        with pytest.raises(AlreadyExists):
            lake.create_database(name)
        assert lake.list_databases(catalog) == ["a"]
    lake.create_table("other.a.t", ARROW)
    with pytest.raises(InvalidRequest):
        lake.drop_database("other.a")
    lake.drop_database("other.a", cascade=True)
    lake.drop_database("other.a", if_exists=True)
    assert (lake.list_databases(), lake.list_databases("other")) == (["a"], [])
    with pytest.raises(InvalidRequest, match="is not a database name"):
        lake.create_database("x.y.z")


def test_a_write_that_fails_leaves_no_table_that_it_created(lake: Lake) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        raise ValueError("the source is gone")

    with pytest.raises(ValueError, match="source is gone"):
        lake.write(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), source()), "db.new", create=True)
    assert not lake.table_exists("db.new")


def test_a_write_creates_the_table_only_on_request(lake: Lake) -> None:
    rows = pl.DataFrame({"id": [1, 2], "name": ["a", None]})
    with pytest.raises(NotFound):
        lake.write(rows, "db.new")
    lake.write(rows, "db.new", create=True)
    lake.write(rows.to_arrow().to_reader(), "db.new", create=True)
    lake.write(rows.to_arrow().to_reader(), "db.newer", create=True)
    assert lake.table("db.new").scan().count() == 4
    assert lake.table("db.newer").scan().to_polars().equals(rows)
