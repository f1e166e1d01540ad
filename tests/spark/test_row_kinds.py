"""Aggregates over a log of changes are those of the rows that are left."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

from lakelog.errors import UnsupportedStatement

CHANGES = [("+I", 1, 1), ("+I", 2, 2), ("-U", 1, 1), ("+U", 1, 10), ("-D", 2, 2)]


@pytest.fixture(params=["all", "upsert"])
def changed(lake, request):
    lake.sql(
        "create table db.cm (id int, v int, primary key (id)) using lakelog tblproperties ("
        f"'log-store.enabled' = 'true', 'log.changelog-mode' = '{request.param}')"
    )
    kinds, ids, values = zip(*CHANGES, strict=True)
    with lake.table("db.cm").writer() as writer:
        columns = {"id": pa.array(ids, pa.int32()), "v": pa.array(values, pa.int32())}
        writer.write(pa.table({**columns, "_row_kind": kinds}))
    return lake


def answer(lake, frame, tmp_path) -> list[tuple]:
    """All rows of a stream that ends, in complete mode."""
    query = frame.writeStream.format("memory").queryName("answer").outputMode("complete")
    query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    return sorted(tuple(row) for row in lake.spark.table("answer").collect())


LOG = "db.cm /*+ OPTIONS('read.mode'='log','scan.startup.mode'='earliest') */"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (f"select count(*), sum(v) from {LOG}", [(1, 10)]),
        (f"select id, count(v), avg(v) from {LOG} group by id", [(1, 1, 10.0)]),
    ],
)
def test_sql_subtracts_retractions(changed, tmp_path, query, wanted) -> None:
    assert answer(changed, changed.sql(query), tmp_path) == wanted


def test_the_sign_of_the_row_kind_does_the_same_on_a_data_frame(changed, tmp_path) -> None:
    options = {"read.mode": "log", "scan.startup.mode": "earliest", "log.consumer.normalize": "true"}
    rows = changed.spark.readStream.format("lakelog").options(**options).load("db.cm")
    sign = sf.when(sf.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
    frame = rows.agg(sf.sum(sign), sf.sum(sf.col("v") * sign))
    assert answer(changed, frame, tmp_path) == [(1, 10)]


def test_max_of_changes_is_refused_and_missing_row_kinds_are_warned_about(changed, caplog) -> None:
    with pytest.raises(UnsupportedStatement, match="_row_kind in"):
        changed.sql(f"select max(v) from {LOG}")
    with caplog.at_level(logging.WARNING, "lakelog.sql"):
        changed.sql(f"select * from {LOG}")
        changed.sql(f"select id, _row_kind from {LOG}")
        assert not caplog.messages
        changed.sql(f"select id, v from {LOG}")
    assert "db.cm" in caplog.text and "_row_kind" in caplog.text
