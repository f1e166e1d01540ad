"""Queries that hypothesis makes, on lakelog tables in several forms: the answers of Spark on the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from depth import DEPTH
from generated_queries import COLUMNS, queries, rows
from lakelog import Lake, connect
from lakelog.spark.runtime.types import spark_schema
from limits import limit

FORMS = {
    "merged": "primary key (id)) tblproperties ('bucket' = '2')",
    "vectors": "primary key (id)) tblproperties ('bucket' = '1', 'deletion-vectors.enabled' = 'true')",
    "partitions": "primary key (id, day)) partitioned by (day) tblproperties ('bucket' = '1')",
    "plain": "primary key (id)) tblproperties ('bucket' = '1', 'merge-engine' = 'partial-update')",
    "append": ")",
}


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Tables ``db.<form>_t`` and ``_u``, which have the rows of the views ``rows_t`` and ``rows_u``."""
    with connect(spark, warehouse=str(tmp_path_factory.mktemp("queries"))) as lake:
        for name, seed, count in (("t", 0, 120), ("u", 1, 60)):
            right = rows(seed, count)
            frame = spark.createDataFrame(right.to_pylist(), spark_schema(right.schema))
            frame.createOrReplaceTempView(f"rows_{name}")
            for form, rest in FORMS.items():
                lake.sql(f"create table db.{form}_{name} ({COLUMNS}{',' if rest.startswith('primary') else ''} {rest}")
                for given_rows in _steps(right, form):
                    lake.table(f"db.{form}_{name}").write(given_rows)
        yield lake


def _steps(right: pa.Table, form: str) -> list[pa.Table]:
    """What leads to the rows: where there is a key, first others, some of which go again."""
    if form in ("append", "plain"):
        return [right.slice(0, 50), right.slice(50)]
    bucket_key = right.schema.get_field_index("name")
    wrong = right.set_column(bucket_key, right.schema.field(bucket_key), pa.repeat("wrong", len(right)))
    spare = right.set_column(0, right.schema.field(0), pa.array([-1 - i for i in right["id"].to_pylist()]))
    gone = spare.append_column("_row_kind", pa.repeat("-D", len(spare)))
    return [pa.concat_tables([wrong, spare]), right.slice(0, 80), gone, right.slice(70)]


def _answer(frame: Any) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in frame.collect())


@pytest.mark.timeout(1800)
@settings(max_examples=DEPTH.cases(40), suppress_health_check=list(HealthCheck))
@given(query=queries(), t=st.sampled_from(sorted(FORMS)), u=st.sampled_from(sorted(FORMS)), as_large=st.booleans())
def test_the_answer_is_spark_s(
    filled: Lake, spark: SparkSession, query: str, t: str, u: str, as_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``as_large``: as of tables of many rows and files, of which the driver reads none by itself."""
    expected = _answer(spark.sql(query.format(t="rows_t", u="rows_u")))
    event("no rows" if not expected else "rows")
    with monkeypatch.context() as patched:
        limit(patched, pruned_files=1)
        if as_large:
            limit(patched, native_rows=-1)
        assert _answer(filled.sql(query.format(t=f"db.{t}_t", u=f"db.{u}_u"))) == expected
