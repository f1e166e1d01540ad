from __future__ import annotations

from datetime import datetime, timedelta

import orjson
import pytest

from lakelog.errors import Corrupt
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.metadata.tag import snapshot_json_of, tag_from_json, tag_to_json

SNAPSHOT = Snapshot(3, 0, "base", "delta", "user", 1, "APPEND", 1000, 5, 5)


def test_a_tag_without_an_end_is_the_snapshot() -> None:
    data = SNAPSHOT.to_json()
    assert tag_to_json(data) == data
    assert tag_from_json("t", data).snapshot == SNAPSHOT
    assert tag_from_json("t", data).ends is None
    assert snapshot_json_of(data) == data


def test_a_retention_is_written_as_java_writes_it_and_read_back() -> None:
    made = datetime(1969, 1, 1, 0, 0, 0, 123456)
    data = tag_to_json(SNAPSHOT.to_json(), made, timedelta(seconds=5))
    assert orjson.loads(data)["tagCreateTime"] == [1969, 1, 1, 0, 0, 0, 123456000]
    assert orjson.loads(data)["tagTimeRetained"] == 5.0
    assert tag_from_json("t", data).ends == made + timedelta(seconds=5)
    assert orjson.loads(snapshot_json_of(data)) == orjson.loads(SNAPSHOT.to_json())


@pytest.mark.parametrize(
    ("time", "want"),
    [
        ([2024, 2, 29, 12, 30], datetime(2024, 2, 29, 12, 30)),
        ([2024, 2, 29, 12, 30, 15], datetime(2024, 2, 29, 12, 30, 15)),
        ("2024-02-29T12:30:00", datetime(2024, 2, 29, 12, 30)),
    ],
)
def test_java_leaves_out_seconds_that_are_zero(time: object, want: datetime) -> None:
    data = orjson.dumps({**orjson.loads(SNAPSHOT.to_json()), "tagCreateTime": time, "tagTimeRetained": 86400.000000000})
    found = tag_from_json("t", data)
    assert (found.created, found.retained) == (want, timedelta(days=1))


def test_nanoseconds_of_a_time_are_stored_next_to_the_time() -> None:
    found = {**orjson.loads(SNAPSHOT.to_json()), "tagCreateTime": [2024, 2, 29, 12, 30, 15, 911930676]}
    tag = tag_from_json("t", orjson.dumps(found))
    assert (tag.created, tag.created_nanos) == (datetime(2024, 2, 29, 12, 30, 15, 911930), 676)


def test_a_time_that_cannot_be_read_is_corrupt() -> None:
    data = orjson.dumps({**orjson.loads(SNAPSHOT.to_json()), "tagCreateTime": [2024, 13, 1, 0, 0]})
    with pytest.raises(Corrupt, match="tag 't'"):
        tag_from_json("t", data)
