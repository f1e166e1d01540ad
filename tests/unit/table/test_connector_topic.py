"""A table follows what a real Debezium connector wrote to its log: files, union reads and tails have its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog import connect
from lakelog.errors import Corrupt, InvalidOption
from lakelog.lake.table import Table
from log_tables import JSON, append_foreign
from record_batches import PlainRecord
from recorded_changes import BARE, SCHEMAS, TABLE, recorded

END = {1: ("ANT", "13.00"), 20: ("bee", "-0.01")}
"""The rows of the source at the end: key → name and price."""


def make(tmp_path: Path, name: str) -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    modes = ", 'debezium.decimal.handling.mode' = 'precise', 'debezium.time.precision.mode' = 'adaptive'"
    columns = TABLE if name == SCHEMAS else TABLE.replace("total decimal(30, 10), ", "")
    lake.sql(
        f"create table db.orders ({columns}, primary key (id)) using lakelog tblproperties ('bucket' = '1'{JSON}, "
        f"'log-store.enabled' = 'true', 'write-only' = 'true'{modes if name == BARE else ''})"
    )
    return lake.table("db.orders")


def append(table: Table, records: list[tuple[bytes | None, bytes | None]]) -> None:
    assert table.logical.log is not None
    plain = [PlainRecord(n, 0, key, value) for n, (key, value) in enumerate(records)]
    append_foreign(table.logical.log, 0, plain)


def rows(table: Table, **options: str) -> dict[int, tuple[str, str]]:
    found = table.scan(options={key.replace("_", "."): value for key, value in options.items()}).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["name"], str(row["price"])) for row in found}


@pytest.mark.parametrize("name", [SCHEMAS, BARE])
def test_the_table_is_the_source(tmp_path: Path, name: str) -> None:
    table = make(tmp_path, name)
    list(table.follow("latest"))  # registers that rows of others come
    records = recorded(name)
    append(table, records[:12])
    assert rows(table, read_mode="union")[1] == ("ANT", "13.00")
    list(table.follow("latest"))
    append(table, records[12:])
    assert rows(table, read_mode="union") == END, "the log's rows over those of the files"
    list(table.follow("latest"))
    assert rows(table) == END
    changes = [row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    left: dict[int, tuple[str, str]] = {}
    for row in changes:
        left.pop(row["id"], None)
        if row["_row_kind"] in ("+I", "+U"):
            left[row["id"]] = (row["name"], str(row["price"]))
    assert left == END


def test_a_truncation_stops_the_follower_with_its_place_or_is_skipped(tmp_path: Path) -> None:
    table = make(tmp_path, SCHEMAS)
    append(table, recorded(SCHEMAS, without=""))
    with pytest.raises(Corrupt, match=r"offset \d+ of bucket 0 .*db\.orders \(topic '.+'\).*field 'op' is 't'"):
        list(table.follow("latest"))
    assert table.latest_snapshot() is None
    skipping = connect(warehouse=str(tmp_path / "warehouse"))
    skipping.sql("alter table db.orders set tblproperties ('scan.on-bad-record' = 'skip')")
    table = skipping.table("db.orders")
    list(table.follow("latest"))
    assert rows(table) == END


@pytest.mark.parametrize(("options", "why"), [
    ({}, "log-store.topic"),
    ({"log-store.topic": "t", "bucket": "2"}, "'bucket' = '2'.*one partition"),
    ({"log-store.topic": "t", "sequence.field": "id"}, "log.content"),
    ({"log-store.topic": "t"}, "needs a topic on a server"),
])  # fmt: skip
def test_a_table_that_cannot_take_a_topic_with_records_says_why(
    tmp_path: Path, options: dict[str, str], why: str
) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    more = "".join(f", '{key}' = '{value}'" for key, value in options.items())
    with pytest.raises(InvalidOption, match=why):
        lake.sql(
            "create table db.orders (id int, primary key (id)) using lakelog tblproperties ("
            f"'log-store.enabled' = 'true', 'log-store.adopt' = 'true'{more})"
        )
    assert list((tmp_path / "warehouse").rglob("schema*")) == []
