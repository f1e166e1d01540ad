"""Queries that run in this process beside Spark's answers on the same rows: values, types, and how many run here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from pyspark.sql import SparkSession

from depth import DEPTH
from generated_queries import COLUMNS, queries, rows
from lakelog import Lake, connect
from lakelog.errors import UnsupportedFeature
from lakelog.spark.compat.arrow import collected
from lakelog.spark.runtime.types import spark_schema

LISTED = Path(__file__).parents[1] / "sql" / "local_queries.txt"
"""Queries, one a line, for each kind of expression."""


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Tables ``db.t`` and ``db.u``, which have the rows of the views ``rows_t`` and ``rows_u``."""
    with connect(spark, warehouse=str(tmp_path_factory.mktemp("embedded"))) as lake:
        for name, seed, count in (("t", 0, 120), ("u", 1, 60)):
            given_rows = rows(seed, count)
            frame = spark.createDataFrame(given_rows.to_pylist(), spark_schema(given_rows.schema))
            frame.createOrReplaceTempView(f"rows_{name}")
            lake.sql(f"create table db.{name} ({COLUMNS}, primary key (id))")
            lake.write(given_rows, f"db.{name}")
        yield lake


def _answer(found: pa.Table) -> Counter[str]:
    utc = pa.timestamp("us", "UTC")
    columns = [column.cast(utc) if _is_instant(column.type) else column for column in found.columns]
    return Counter(map(repr, zip(*(column.to_pylist() for column in columns), strict=True)))


def _is_instant(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _types(found: pa.Table) -> list[str]:
    return ["instant" if _is_instant(kind) else str(kind).replace("large_", "") for kind in found.schema.types]


def difference(lake: Lake, spark: SparkSession, query: str) -> str | None:
    """What differs, "" for nothing, None if this process does not run the query."""
    try:
        here = lake.sql(query.format(t="db.t", u="db.u"), engine="local").to_arrow()
    except UnsupportedFeature:
        return None
    there = collected(spark.sql(query.format(t="rows_t", u="rows_u")))
    if _types(here) != _types(there):
        return f"{query}: types {_types(here)}, Spark: {_types(there)}"
    ours, theirs = _answer(here), _answer(there)
    return "" if ours == theirs else f"{query}: {list(ours - theirs)[:3]}, Spark: {list(theirs - ours)[:3]}"


@pytest.mark.timeout(1800)
@settings(max_examples=DEPTH.cases(100), suppress_health_check=list(HealthCheck))
@given(query=queries())
def test_a_drawn_query_has_spark_s_answer_or_is_refused(filled: Lake, spark: SparkSession, query: str) -> None:
    found = difference(filled, spark, query)
    event("refused" if found is None else "equal")
    assert not found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/St_Johns"])
def test_each_kind_of_expression_has_spark_s_values_and_types(filled: Lake, spark: SparkSession, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        texts = [line for line in LISTED.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        found = {text: difference(filled, spark, text) for text in texts}
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert [difference for difference in found.values() if difference] == []
    refused = [text for text, difference in found.items() if difference is None]
    assert len(refused) <= len(found) // 20, refused
