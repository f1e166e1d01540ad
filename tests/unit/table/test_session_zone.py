"""Times as text in statements are in the time zone of the session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.table.read.time_travel import SESSION_ZONE, millis_of, with_times_in, zone_of

NOON = int(datetime(2024, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("name", "zone"),
    {
        "Asia/Shanghai": ZoneInfo("Asia/Shanghai"),
        "UTC": ZoneInfo("UTC"),
        "+08:00": timezone(timedelta(hours=8)),
        "GMT-3": timezone(-timedelta(hours=3)),
        "-05:30": timezone(-timedelta(hours=5, minutes=30)),
        "nowhere": None,
        "": None,
    }.items(),
)
def test_a_zone_is_found_by_its_id(name: str, zone: object) -> None:
    assert zone_of(name) == zone


def test_a_text_without_a_zone_is_in_that_of_the_session() -> None:
    zone = zone_of("+08:00")
    assert millis_of("2024-01-31 20:00:00", zone) == millis_of("2024-01-31 12:00:00Z", zone) == NOON
    given = {"scan.timestamp": "2024-01-31 20:00:00", "incremental-between-timestamp": f"{NOON}, 2024-01-31 20:00:01"}
    wanted = {"scan.timestamp-millis": str(NOON), "incremental-between-timestamp": f"{NOON},{NOON + 1000}"}
    assert with_times_in(given, zone) == wanted
    assert with_times_in(given, None) == given


def test_restore_reads_the_time_in_the_zone_of_a_session_that_has_not_started(tmp_path: Path) -> None:
    lake = connect(str(tmp_path), settings={SESSION_ZONE: "-11:00"})
    lake.sql("create database db; create table db.t (id int)")
    for number in (1, 2):
        lake.write(pa.table({"id": pa.array([number], pa.int32())}), "db.t")
    first = lake.table("db.t").logical.store.snapshot(1)
    then = datetime.fromtimestamp(first.time_millis / 1000, UTC).astimezone(timezone(-timedelta(hours=11)))
    lake.sql(f"restore db.t to timestamp as of '{then.replace(tzinfo=None).isoformat(sep=' ')}'")
    assert lake.table("db.t").scan().to_arrow()["id"].to_pylist() == [1]
