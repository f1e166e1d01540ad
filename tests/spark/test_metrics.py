"""Counts of what Spark's Python processes commit, seen at the driver; the doctor's look at a real session."""

from __future__ import annotations

import time

import pytest

import lakelog
from lakelog.io.metrics import METER
from lakelog.service.doctor.check import CheckContext
from lakelog.service.doctor.run import examine
from lakelog.service.metrics.table_gauges import SampleSource, collect_from_children
from lakelog.spark.session.session import STREAM_SETTINGS

CREATE = """create table db.{name} (id bigint, primary key (id)) using lakelog
tblproperties ('log-store.enabled' = 'true', 'commit.interval' = '200 ms')"""
# Names that no other test has: workers that Spark keeps still have counts of theirs to tell.


@pytest.fixture
def counted(spark, tmp_path, monkeypatch):
    """A lake that is opened when this process already collects counts of others."""
    monkeypatch.setenv("LAKELOG_METRICS_DIR", str(tmp_path / "counts"))
    collect_from_children()
    METER.reset()
    with lakelog.connect(spark, warehouse=str(tmp_path / "warehouse")) as lake:
        for name in ("by_stream", "by_batch"):
            lake.sql(CREATE.format(name=name))
        yield lake


def written(lake) -> dict[tuple[str, ...], float]:
    """Metric and labels → value, of what has been counted."""
    return {(sample.metric.name, *sample.labels): sample.value for sample in SampleSource().samples()}


def test_rows_of_a_stream_are_counted_at_the_driver_once(counted, spark, tmp_path) -> None:
    (tmp_path / "in").mkdir()
    source = spark.readStream.schema("id bigint").json(str(tmp_path / "in"))
    query = counted.write_stream(source, "db.by_stream", str(tmp_path / "checkpoint"))
    for number in range(2):
        rows = "".join(f'{{"id": {number * 100 + i}}}\n' for i in range(100))
        (tmp_path / "in" / f"{number}.json").write_text(rows)
        query.processAllAvailable()
    end = time.monotonic() + 120
    while written(counted).get(("rows_written", "db.by_stream", "files")) != 200 and time.monotonic() < end:
        time.sleep(0.2)
    query.stop()
    found = written(counted)
    assert found["rows_written", "db.by_stream", "log"] == 200
    assert found["rows_written", "db.by_stream", "files"] == 200
    assert found["bytes_written", "db.by_stream", "log"] > 200
    assert found["epochs_decided", "db.by_stream"] >= 2
    assert 1 <= found["seals", "db.by_stream"] == found["commits", "db.by_stream", "APPEND"]


def test_rows_of_a_batch_write_are_counted_once(counted, spark) -> None:
    counted.sql("insert into db.by_batch select id from range(1000)")
    spark.range(1000, 1500).write.format("lakelog").mode("append").save("db.by_batch")
    end = time.monotonic() + 120
    while written(counted).get(("rows_written", "db.by_batch", "files")) != 1500 and time.monotonic() < end:
        time.sleep(0.2)
    found = written(counted)
    assert found["rows_written", "db.by_batch", "log"] == 1500
    assert found["rows_written", "db.by_batch", "files"] == 1500
    assert found["commits", "db.by_batch", "APPEND"] == 2


def test_the_doctor_reads_the_settings_of_a_real_session(spark, tmp_path) -> None:
    (first, *others) = examine(CheckContext(str(tmp_path), session=spark), ["session"])
    lacking = {key for key, value in STREAM_SETTINGS.items() if spark.conf.get(key, None) != value}
    if lacking:
        assert {finding.found.split()[2] for finding in (first, *others)} == lacking
    else:
        assert (first.outcome, others) == ("pass", [])
