"""Queries that run in this process beside Spark's answers on the same rows: values, types, and how many run here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

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
OF_CHAR: Final = LISTED.with_name("char_queries.txt")
CHARS: Final = "id int, c char(5), d char(3), v varchar(5), s string, info struct<c: char(4)>"


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


def difference(lake: Lake, spark: SparkSession, query: str, t: str = "t", own: str = "rows_t") -> str | None:
    """What differs, "" for nothing, None if this process does not run the query. ``own`` is Spark's copy of ``t``."""
    try:
        here = lake.sql(query.format(t=f"db.{t}", u="db.u"), engine="local").to_arrow()
    except UnsupportedFeature:
        return None
    there = collected(spark.sql(query.format(t=own, u="rows_u")))
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


@pytest.mark.timeout(1800)
def test_a_char_is_compared_as_spark_compares_its_own(filled: Lake, spark: SparkSession) -> None:
    filled.sql(f"create table db.chars ({CHARS}, primary key (id))")
    spark.sql(f"create table own_chars ({CHARS}) using parquet")
    try:
        for table in ("db.chars", "own_chars"):
            filled.sql(
                f"insert into {table} values (1, 'ab', 'ab', 'ab', 'ab', named_struct('c', 'ab')), "
                "(2, 'cd', 'cd ', 'cd ', 'cd   ', named_struct('c', 'cd')), (3, 'ab\t', 'ab', 'ab\t', 'x', null), "
                "(4, null, null, null, null, null)"
            )
        texts = [line for line in OF_CHAR.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        answers = {text: difference(filled, spark, text, "chars", "own_chars") for text in texts}
    finally:
        spark.sql("drop table own_chars")
    assert [difference for difference in answers.values() if difference != ""] == []
