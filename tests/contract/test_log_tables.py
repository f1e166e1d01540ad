"""What a table may be does not depend on its log: buckets, merge engines, statements and ALTER on every log system."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakelog import Lake
from lakelog.lake.table import Table
from lakelog.logstore.clients import close_clients
from lakelog.table.log.scan import LogScan
from log_records import NewLocation
from log_tables import files, folded, rows

UNION = {"read.mode": "union"}
NewTable = Callable[..., Table]


@pytest.fixture
def new_table(lake: Lake, new_location: NewLocation) -> Iterator[NewTable]:
    """Makes ``db.t`` (id, name) with a log on the system under the suite; drops it, and its topic, at the end."""
    at = new_location()
    place = {"address": at.address, "topic": at.topic} if at.system in ("kafka", "pulsar") else {}
    given = {"log-store.enabled": "true", "log-store.type": at.system, "log-store.drop-with-table": "true"}
    given |= {f"log-store.{name}": text for name, text in place.items()}
    given |= {f"properties.{name}": text for name, text in at.properties.items()}

    def make(key: str = ", primary key (id)", **more: str) -> Table:
        options = {name.replace("__", ".").replace("_", "-"): text for name, text in more.items()}
        texts = ", ".join(f"'{name}' = '{text}'" for name, text in {**given, **options}.items())
        lake.sql(f"create table db.t (id int, name string{key}) using lakelog tblproperties ({texts})")
        return lake.table("db.t")

    yield make
    lake.sql("drop table if exists db.t")
    close_clients()  # a client of a broker takes twenty file descriptors, and Spark's gateway has a thousand


def write(table: Table, *ids: int, name: str, kinds: list[str] | None = None) -> None:
    with table.writer() as writer:
        writer.write(rows(*ids, name=name, kinds=kinds))


def check(lake: Lake, wanted: dict[int, str]) -> None:
    table = lake.table("db.t")
    rest = sorted(wanted.items())
    assert files(table) == files(table, **UNION) == folded(table) == rest


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_the_number_of_buckets_is_not_that_of_the_log(lake: Lake, new_table: NewTable, bucket: str) -> None:
    old = new_table(bucket=bucket, log_store__partitions="2", dynamic_bucket__target_row_num="4")
    write(old, *range(20), name="a")
    tail = old.tail("earliest", stop="latest")
    assert sum(batch.num_rows for batch in tail) == 20
    if bucket == "2":
        lake.sql("alter table db.t set tblproperties ('bucket' = '5')")
        lake.sql("call sys.rescale('db.t')")
    table = lake.table("db.t")
    with old.writer() as before, table.writer() as after:
        before.write(rows(1, 2, name="b"))
        after.write(rows(3, 30, name="b"))
    changes = [row for batch in old.tail(tail.position, stop="latest") for row in batch.to_pylist()]
    assert {(row["id"], row["name"]) for row in changes} == {(n, "b") for n in (1, 2, 3, 30)}
    check(lake, dict.fromkeys(range(20), "a") | dict.fromkeys((1, 2, 3, 30), "b"))
    assert len({e.bucket for e in table.logical.store.live_entries(table.latest_snapshot())}) > 2


def test_merged_rows_are_what_readers_get(lake: Lake, new_table: NewTable) -> None:
    table = new_table(merge_engine="aggregation", fields__name__aggregate_function="listagg", bucket="2")
    write(table, 1, 2, name="a")
    write(table, 1, name="b")
    check(lake, {1: "a,b", 2: "a"})
    changes = [
        (r["_row_kind"], r["id"], r["name"]) for b in table.tail("earliest", stop="latest") for r in b.to_pylist()
    ]
    assert [change for change in changes if change[1] == 1] == [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "a,b")]


@pytest.mark.parametrize("options", [{}, {"log__changelog_mode": "all"}, {"log__content": "changes"}], ids=str)
def test_what_an_overwrite_replaces_reaches_the_readers(
    lake: Lake, new_table: NewTable, options: dict[str, str]
) -> None:
    table = new_table(bucket="2", **options)
    write(table, 1, 2, name="a")
    lake.sql("truncate table db.t")
    check(lake, {})
    write(table, 4, 5, name="c")
    with table.writer(overwrite=True) as writer:
        writer.write(rows(5, 6, name="d"))
    check(lake, {5: "d", 6: "d"})


def test_without_a_key_the_whole_row_decides_the_partition_of_the_log(lake: Lake, new_table: NewTable) -> None:
    table = new_table(key="", bucket="2")
    write(table, *range(20), name="a")
    write(table, 3, name="a")
    assert files(table) == files(table, **UNION) == sorted([*((n, "a") for n in range(20)), (3, "a")])
    reader = LogScan(table.logical).reader
    firsts, ends = reader.first_offsets(), reader.end_offsets()
    assert len(ends) == 2 and all(end > firsts[at] for at, end in ends.items())
    read = [row["id"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert sorted(read) == sorted([*range(20), 3])


def test_a_tail_goes_on_over_a_renamed_column(lake: Lake, new_table: NewTable) -> None:
    table = new_table(bucket="2")
    write(table, 1, name="a")
    tail = table.tail("earliest", stop="latest")
    assert [row["name"] for batch in tail for row in batch.to_pylist()] == ["a"]
    lake.sql("alter table db.t rename column name to title")
    with lake.table("db.t").writer() as writer:
        writer.write(rows(1, 2, name="b").rename_columns(["id", "title"]))
    changes = [row for batch in lake.table("db.t").tail(tail.position, stop="latest") for row in batch.to_pylist()]
    assert {(row["id"], row["title"]) for row in changes} == {(1, "b"), (2, "b")}
    assert {row["title"] for b in lake.table("db.t").tail("earliest", stop="latest") for row in b.to_pylist()} == {
        "a",
        "b",
    }
