from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from lakelog.errors import InvalidOption
from lakelog.filestore.compaction.record_expiry import RecordExpiry
from lakelog.filestore.store import FileStore
from lakelog.io import clock

PARTITION = b"\x00" * 12


def expiring(table, field: str | None = "at") -> FileStore:
    options = {**table.store.schema.options, "record-level.expire-time": "1 h"}
    if field:
        options["record-level.time-field"] = field
    return FileStore(table.store.io, table.store.table_path, replace(table.store.schema, options=options))


@pytest.mark.parametrize(("kind", "unit"), [("INT", 1), ("BIGINT", 1), ("BIGINT", 1000), ("TIMESTAMP(3)", None)])
def test_old_rows_go_when_a_compaction_rewrites_them(make_table, kind, unit) -> None:
    table = make_table(columns=(("id", "INT NOT NULL"), ("at", kind)))
    now = clock.now_ms() // 1000

    def time(ago: int):
        return datetime(1970, 1, 1) + timedelta(seconds=now - ago) if unit is None else (now - ago) * unit

    table.insert((0, 1, time(7200)), (0, 2, time(60)), (0, 3, None))
    table.insert((0, 4, time(7200)))
    store = expiring(table)
    assert table.ids() == [1, 2, 3, 4]  # an ordinary read does not look at the time
    store.compact(PARTITION, 0, full=True)
    assert table.ids() == [2, 3]
    assert store.compact(PARTITION, 0, full=True) is None


def test_a_full_compaction_finds_old_rows_at_the_top_level(make_table) -> None:
    table = make_table(columns=(("id", "INT NOT NULL"), ("at", "INT")))
    table.insert((0, 1, 100), (0, 2, None))
    table.store.compact(PARTITION, 0, full=True)
    store = expiring(table)
    assert store.compact(PARTITION, 0, full=True) is not None
    assert table.ids() == [2]
    assert store.compact(PARTITION, 0, full=True) is None


def test_a_row_that_is_old_does_not_bring_back_an_older_one(make_table) -> None:
    table = make_table(columns=(("id", "INT NOT NULL"), ("at", "INT")), num_sorted_run_compaction_trigger="2")
    now = clock.now_ms() // 1000
    table.insert((0, 1, now))
    table.store.compact(PARTITION, 0, full=True)
    store = expiring(table)
    table.insert((0, 1, 5))
    table.insert((0, 2, now))
    store.compact(PARTITION, 0)
    store.compact(PARTITION, 0, full=True)
    assert table.ids() == [2]


@pytest.mark.parametrize("field", [None, "nothing", "name"])
def test_a_time_field_that_cannot_be(make_table, field) -> None:
    with pytest.raises(InvalidOption, match="record-level"):
        RecordExpiry.of(expiring(make_table(), field).schema)
