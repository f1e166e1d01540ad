"""A time without a zone means the same in a write, a filter, a partition and a text: the local time of this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from lakelog import connect

TIMES = [
    datetime(2024, 7, 1, 12),
    datetime(2024, 3, 10, 2, 30),  # left out in New York
    datetime(2024, 11, 3, 1, 30),  # twice
    datetime(1883, 11, 18, 12, 3, 57),
    datetime(3, 1, 1, 0, 0, 0, 1),
    datetime(9998, 12, 31, 23),
]


@pytest.fixture(params=["America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"])
def zone(request, monkeypatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def instant(local: datetime, zone: str) -> datetime:
    """As Java takes it: a time that the clock left out is as much later as the clock was put forward."""
    return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def make(tmp_path: Path, more: str = ""):
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(f"create table db.t (id int, ts timestamp){more}")
    return lake.table("db.t")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_write_and_a_filter_mean_the_same_time(tmp_path, zone, unit) -> None:
    table = make(tmp_path)
    times = [t for t in TIMES if unit != "ns" or 1700 < t.year < 2200]
    times = [t.replace(microsecond=0) for t in times] if unit in ("s", "ms") else times
    table.write(
        pa.table({"id": range(len(times)), "ts": pa.array(times, pa.timestamp(unit))}).cast(
            pa.schema([("id", pa.int32()), ("ts", pa.timestamp(unit))])
        )
    )
    assert table.scan().to_arrow()["ts"].to_pylist() == [instant(t, zone) for t in times]
    for number, moment in enumerate(times):
        assert table.scan(filter=[("ts", "=", moment)]).to_arrow()["id"].to_pylist() == [number]
        assert table.scan(filter=f"ts = '{moment.isoformat(sep=' ')}'").to_arrow()["id"].to_pylist() == [number]


def test_a_partition_of_a_local_time_is_the_one_that_was_written(tmp_path, zone) -> None:
    table = make(tmp_path, " partitioned by (ts)")
    table.write(pa.table({"id": pa.array([1, 2], pa.int32()), "ts": pa.array(TIMES[:2], pa.timestamp("us"))}))
    table.truncate({"ts": TIMES[0]})
    assert table.scan().to_arrow()["id"].to_pylist() == [2]
    table.write(
        pa.table({"id": pa.array([3], pa.int32()), "ts": pa.array(TIMES[1:2], pa.timestamp("us"))}),
        overwrite={"ts": TIMES[1]},
    )
    assert table.scan().to_arrow()["id"].to_pylist() == [3]


def test_a_nested_local_time_is_the_same_instant(tmp_path, zone) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.n (a array<timestamp>)")
    lake.write(pa.table({"a": pa.array([TIMES[:2], None], pa.list_(pa.timestamp("us")))}), "db.n")
    assert lake.table("db.n").scan().to_arrow()["a"].to_pylist() == [[instant(t, zone) for t in TIMES[:2]], None]


def test_a_text_of_sql_means_the_same_time(tmp_path, zone, monkeypatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.t (id int, ts timestamp); insert into db.t values (1, '2024-03-10 02:30:00')")
    assert lake.table("db.t").to_arrow()["ts"].to_pylist() == [instant(TIMES[1], zone)]
