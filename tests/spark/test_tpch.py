"""The 22 queries of TPC-H: on lakelog tables, whose reads merge and use deletion vectors, as on plain Parquet."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog import Lake, connect

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import tpch

QUERIES = tpch.queries()


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    directory = tmp_path_factory.mktemp("tpch")
    tpch.generate(0.01, directory)  # with fewer suppliers a key of partsupp is there twice
    with connect(spark, warehouse=str(directory / "warehouse")) as lake:
        tpch.fill(lake, directory)
        tpch.plain(lake, directory)
        lake.sql("use tpch")
        yield lake


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_that_on_plain_files(filled: Lake, spark: SparkSession, name: str) -> None:
    assert tpch.rows_of(filled.sql(QUERIES[name])) == tpch.rows_of(spark.sql(tpch.of_plain(QUERIES[name])))


def test_reads_are_asked_for_no_more_than_the_query_needs(filled: Lake) -> None:
    lineitem = tpch.pushed(filled, QUERIES["q06"])[0]
    assert lineitem["columns"] == 4
    assert "l_quantity < 24" in lineitem["filter"] and "l_shipdate >= " in lineitem["filter"]
    assert all(len(tpch.pushed(filled, text)) > 0 for text in QUERIES.values())
