from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from lakelog.errors import InvalidOption, InvalidRequest
from lakelog.filestore.gc.partition_expiry import PartitionRule, partition_time, pick_old_partitions
from lakelog.io import clock
from lakelog.paimon.rows.partition import decode_partition

COLUMNS = (("id", "INT NOT NULL"), ("name", "STRING"), ("day", "STRING NOT NULL"))
DAY = timedelta(days=1)


def rule(pattern: str | None = None, formatter: str | None = None, strategy: str = "values-time") -> PartitionRule:
    return PartitionRule(DAY, strategy, pattern, formatter, 100)


@pytest.mark.parametrize(
    ("values", "pattern", "formatter", "want"),
    [
        (("2024-02-29", "7"), None, None, datetime(2024, 2, 29)),
        (("2024-2-9 5:06:07.5", "7"), None, None, datetime(2024, 2, 9, 5, 6, 7, 500000)),
        (("2024-02-31", "7"), None, None, datetime(2024, 3, 2)),  # Java's dates are lenient
        (("20240229", "7"), None, "yyyyMMdd", datetime(2024, 2, 29)),
        (("2024-02-29", 7), "$dt $dth:00:00", None, datetime(2024, 2, 29, 7)),
        (("20240229", "07"), "$dt-$dth", "yyyyMMdd-HH", datetime(2024, 2, 29, 7)),
        (("2024T02", "7"), None, "yyyy'T'MM", datetime(2024, 2, 1)),
        (("default", "7"), None, None, None),
        ((None, "7"), None, None, None),
        (("2024-02-29", None), "$dt $dth:00:00", None, None),
    ],
)
def test_the_time_of_a_partition(values, pattern, formatter, want) -> None:
    assert partition_time(values, ("dt", "dth"), rule(pattern, formatter)) == want


def test_a_formatter_that_is_not_known() -> None:
    with pytest.raises(InvalidOption, match="unknown part 'EEE'"):
        partition_time(("x",), ("dt",), rule(None, "EEE"))


def test_old_partitions_go_in_one_commit(make_table) -> None:
    table = make_table(("id", "day"), ("day",), COLUMNS)
    table.insert((0, 1, "a", "2020-01-01"), (0, 2, "b", "2020-01-02"), (0, 3, "c", "2999-01-01"), (0, 4, "d", "x"))
    carried = {"lakelog.writers": "{}"}
    dropped = table.store.expire_partitions(rule(), lambda latest: carried)
    assert [decode_partition(p, table.store.schema) for p in dropped] == [("2020-01-01",), ("2020-01-02",)]
    assert table.ids() == [3, 4]
    newest = table.store.latest_snapshot()
    assert (newest.id, newest.commit_kind, newest.properties) == (2, "OVERWRITE", carried)
    assert table.store.expire_partitions(rule()) == []
    assert table.store.latest_snapshot().id == 2


def test_the_last_change_counts_with_update_time(make_table) -> None:
    table = make_table(("id", "day"), ("day",), COLUMNS)
    table.insert((0, 1, "a", "2020-01-01"))
    live = table.store.live_entries(table.store.latest_snapshot())
    now = datetime.fromtimestamp(clock.now_ms() / 1000)
    for later, want in ((timedelta(hours=1), 0), (timedelta(days=3), 1)):
        picked = pick_old_partitions(live, table.store.schema, rule(strategy="update-time"), now + later)
        assert len(picked) == want


def test_a_partition_that_is_written_during_its_drop_is_checked_again(make_table) -> None:
    table = make_table(("id", "day"), ("day",), COLUMNS)
    table.insert((0, 1, "a", "2020-01-01"))
    seen = []

    def properties(latest):
        if not seen:
            table.insert((0, 2, "late", "2020-01-01"))
        seen.append(latest.id)
        return {}

    assert len(table.store.expire_partitions(rule(), properties)) == 1
    assert seen == [1, 2]
    assert table.ids() == []


def test_a_table_without_partitions(make_table) -> None:
    with pytest.raises(InvalidRequest, match="not partitioned"):
        make_table().store.expire_partitions(rule())
