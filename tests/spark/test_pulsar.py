"""Spark on a table whose log is on Pulsar: the double write by a stream, the log read by a stream, both the same."""

from __future__ import annotations

import json

import pytest

from seen_batches import SeenBatches

pytestmark = pytest.mark.pulsar


@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
def test_a_stream_writes_both_stores_and_another_one_reads_the_log(lake, spark, tmp_path, pulsar_server, form) -> None:
    lake.sql(
        "create table db.t (id bigint, name string, primary key (id)) using lakelog tblproperties ('bucket' = '2', "
        f"'log-store.enabled' = 'true', 'log-store.address' = '{pulsar_server.service_url}', "
        f"'properties.pulsar.admin.adminUrl' = '{pulsar_server.admin_url}', 'log-store.drop-with-table' = 'true', "
        f"'log-store.data-format' = '{form}', 'log.changelog-mode' = 'all', 'commit.interval' = '200 ms')"
    )
    rows = [(number, f"n{number}", "+I") for number in range(60_000)]
    changes = [(1, "n1", "-U"), (1, "new", "+U"), (2, "n2", "-D")]
    source = tmp_path / "in"
    source.mkdir()
    put(source, "1", rows)
    frame = spark.readStream.schema("id bigint, name string, _row_kind string").json(str(source))
    writing = lake.write_stream(frame, "db.t", str(tmp_path / "cp"))
    writing.processAllAvailable()
    put(source, "2", changes)
    writing.processAllAvailable()
    writing.stop()
    told = SeenBatches(tmp_path / "told")
    log = lake.sql(
        "select id, name, _row_kind from db.t /*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest', "
        "'read.max-rows-per-trigger'='25000') */"
    )
    reading = (
        log.writeStream.foreachBatch(told.take)
        .option("checkpointLocation", str(tmp_path / "read"))
        .trigger(availableNow=True)
        .start()
    )
    assert reading.awaitTermination(200)
    assert sorted(told.tuples()) == sorted([*rows, *changes])
    table = {1: "new", **{number: f"n{number}" for number in range(60_000) if number not in (1, 2)}}
    assert dict(tuple(row) for row in lake.sql("select id, name from db.t").collect()) == table
    union = lake.sql("select id, name from db.t /*+ OPTIONS('read.mode'='union') */")
    assert dict(tuple(row) for row in union.collect()) == table
    lake.sql("drop table db.t")


def put(directory, name: str, rows: list[tuple[int, str, str]]) -> None:
    """Adds a file to a directory that a stream reads."""
    text = "\n".join(json.dumps({"id": i, "name": n, "_row_kind": k}) for i, n, k in rows)
    part = directory / f"_{name}.part"
    part.write_text(text, encoding="utf-8")
    part.rename(directory / f"{name}.json")
