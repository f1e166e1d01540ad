"""What a table may be does not depend on its log: buckets, merge engines, statements and ALTER on every log system."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from lakelog import Lake, connect
from lakelog.errors import NotFound
from lakelog.lake.table import Table
from lakelog.logstore import LOG_SYSTEMS
from lakelog.logstore.base import LogLocation
from lakelog.logstore.clients import appender_for, close_clients, reader_for
from lakelog.logstore.embedded.system import EmbeddedLogSystem
from lakelog.logstore.protocol.control_records import commit_record, commits_in
from lakelog.logstore.pulsar.topic import PulsarTopic
from lakelog.paimon.schema.changes import AddColumn, ChangeType, RenameColumn
from lakelog.paimon.types.types import BIGINT, STRING
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.log.scan import LogScan
from limits import limit
from log_records import NewLocation
from log_tables import files, folded, log_of, rows, silence, write
from ordered_writes import attempt, take_back_while_a_row_comes

UNION = {"read.mode": "union"}
TRANSACTIONAL = {"log.consistency": "transactional"}
KEY = ", primary key (id)"
FORMS = pytest.mark.parametrize("form", ["debezium-json", "arrow"])
NewTable = Callable[..., Table]


@pytest.fixture
def new_table(lake: Lake, new_location: NewLocation) -> Iterator[NewTable]:
    """Makes ``db.t`` (id, name) with a log on the system under the suite; drops it, and its topic, at the end."""
    at = new_location()
    place = {"address": at.address, "topic": at.topic} if at.system in ("kafka", "pulsar") else {}
    given = {"log-store.enabled": "true", "log-store.type": at.system, "log-store.drop-with-table": "true"}
    given |= {f"log-store.{name}": text for name, text in place.items()}
    given |= {f"properties.{name}": text for name, text in at.properties.items()}

    def make(key: str = KEY, **more: str) -> Table:
        options = {name.replace("__", ".").replace("_", "-"): text for name, text in more.items()}
        texts = ", ".join(f"'{name}' = '{text}'" for name, text in {**given, **options}.items())
        lake.sql(f"create table db.t (id int, name string{key}) using lakelog tblproperties ({texts})")
        return lake.table("db.t")

    yield make
    lake.sql("drop table if exists db.t")
    close_clients()  # a client of a broker takes twenty file descriptors, and Spark's gateway has a thousand


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
    table.write(rows(5, 6, name="d"), overwrite=True)
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


@pytest.mark.parametrize(("key", "few"), [("", 0), (KEY, 0), (KEY, 20_000)])
def test_open_rows_and_rows_that_were_taken_back(new_table: NewTable, key: str, few: int, monkeypatch) -> None:
    limit(monkeypatch, union_rows=few)
    table = new_table(key=key, bucket="2", **({} if key else {"bucket_key": "id"}))
    assert files(table, **UNION) == []
    first = table.writer()
    first.write(rows(1, 2))
    first.flush()
    table.write(rows(3, 4))
    assert files(table, **UNION) == [(n, "a") for n in (1, 2, 3, 4)]
    told = [r["id"] for b in table.tail("latest-full", stop="latest") for r in b.to_pylist()]
    assert sorted(set(told)) == [1, 2, 3, 4]
    assert key or len(told) == 4, "an upsert log is told again from its first open row on"
    first.close()
    assert files(table, **UNION) == files(table) == [(3, "a"), (4, "a")]


@pytest.mark.parametrize("end", ["commits", "aborts", "dies"])
def test_a_row_that_comes_while_a_dead_writer_is_taken_back(new_table: NewTable, end: str, monkeypatch) -> None:
    take_back_while_a_row_comes(new_table(bucket="2"), monkeypatch, end)


def seen(table: Table, start: str = "earliest") -> list[int]:
    """The ids that a reader of committed rows gets."""
    return sorted(n for b in table.tail(start, stop="latest", options=TRANSACTIONAL) for n in b["id"].to_pylist())


def fail_over(table: Table, writer: str, epoch: int, *ids: int) -> Committer:
    """An epoch with two attempts, of which the second one counts; decided, not sealed."""
    tasks = [attempt(table.logical, writer, epoch, rows(*ids)) for _ in range(2)]
    for task in tasks:
        task.flush_log()
    committer = Committer(table.logical, writer)
    committer.commit(epoch, [tasks[1].finish()])
    tasks[0].close()
    return committer


@FORMS
def test_committed_rows_come_once_in_one_order_wherever_the_log_is_cut(new_table: NewTable, form: str) -> None:
    table = new_table(key="", bucket="2", bucket_key="id", log_store__data_format=form)
    first, second = fail_over(table, "x", 0, 1, 2), fail_over(table, "y", 0, 3, 4)
    assert seen(table) == seen(table, "latest-full") == []
    seal(second)
    assert seen(table) == seen(table, "latest-full") == [1, 2, 3, 4]
    log = log_of(table)
    reader = reader_for(log)
    firsts = reader.first_offsets()
    for bucket, end in reader.end_offsets().items():
        for commit in (c for part in reader.chunks(bucket, firsts[bucket], end) for c in commits_in(part)):
            again = commit_record(commit.writer, commit.epoch, commit.attempts, commit.first)
            appender_for(log).append(bucket, again)
    appender_for(log).flush()
    seal(first)
    assert seen(table) == seen(table, "latest-full") == [n for n, _ in files(table)] == [1, 2, 3, 4]
    changes = table.tail("latest", options=TRANSACTIONAL)
    with table.writer() as long:
        for start in range(100, 3_100, 500):
            long.write(rows(*range(start, start + 500)))
            long.flush()
            table.write(rows(10_000 + start))
            assert next(changes)["id"].to_pylist() == [10_000 + start]
    assert seen(table) == [1, 2, 3, 4, *range(100, 3_100), *(10_100 + start for start in range(0, 3_000, 500))]
    scan = LogScan(table.logical.with_hints(TRANSACTIONAL))
    for bucket, end in scan.reader.end_offsets().items():
        whole = [n for b in scan.read(bucket, firsts[bucket], end) for n in b["id"].to_pylist()]
        step = max(1, (end - firsts[bucket]) // 7)
        cuts = [(at, min(end, at + step)) for at in range(firsts[bucket], end, step)]
        assert [n for cut in cuts for b in scan.read(bucket, *cut) for n in b["id"].to_pylist()] == whole


def changes_of(table: Table) -> list[dict[str, Any]]:
    """The rows of the log, with those that were taken back left out."""
    out: dict[str, dict[str, Any]] = {}
    for batch in table.tail("earliest", stop="latest"):
        for row in batch.to_pylist():
            kind = row.pop("_row_kind")
            if kind in ("+I", "+U"):
                out[json.dumps(row)] = row
            else:
                out.pop(json.dumps(row), None)
    return sorted(out.values(), key=lambda row: list(row.values())[0])


def insert(table: Table, **columns: list[Any]) -> None:
    table.write(pa.table(columns), missing="null")


@pytest.mark.parametrize("mode", ["upsert", "all", ""])
@FORMS
def test_readers_find_columns_by_id_and_healers_take_back_what_is_older_than_an_alter(
    lake: Lake, new_table: NewTable, form: str, mode: str
) -> None:
    options = {"log__changelog_mode": mode} if mode else {"bucket_key": "id"}
    table = new_table(key=KEY if mode else "", bucket="2", log_store__data_format=form, **options)
    before, id_type = connect(warehouse=lake.warehouse).table("db.t"), pa.int32()
    insert(table, id=pa.array([1], id_type), name=["a"])
    tail = table.tail("earliest", stop="latest")
    assert [row["name"] for batch in tail for row in batch.to_pylist()] == ["a"]
    dead = before.writer()
    dead.write(pa.table({"id": pa.array([1 if mode else 9], id_type), "name": ["dead"]}))
    dead.flush()
    names = [RenameColumn(("id",), "k"), RenameColumn(("name",), "id"), AddColumn(("name",), BIGINT)]
    table.alter(*names, AddColumn(("n",), BIGINT), ChangeType(("name",), STRING))
    insert(table, k=pa.array([2], id_type), id=["b"], name=["new"], n=[2**40])
    insert(before, id=pa.array([3], id_type), name=["c"])
    for writer in table.logical.registered.writers():
        silence(table, writer)
    take_over_now(table.logical)
    wanted = [
        {"k": 1, "id": "a", "name": None, "n": None},
        {"k": 2, "id": "b", "name": "new", "n": 2**40},
        {"k": 3, "id": "c", "name": None, "n": None},
    ]
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == wanted
    gone_on = [row for batch in table.tail(tail.position, stop="latest") for row in batch.to_pylist()]
    assert {2, 3} <= {row["k"] for row in gone_on}
    if mode == "upsert":
        last = {row["k"]: row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()}
        assert [{n: v for n, v in row.items() if n != "_row_kind"} for _, row in sorted(last.items())] == wanted
    else:
        assert changes_of(table) == wanted
        assert changes_of(before) == [{"id": row["k"], "name": row["id"]} for row in wanted]


def test_health_has_the_lag_of_rows_that_are_in_the_log_alone(new_table: NewTable) -> None:
    table = new_table(bucket="2")
    write(table, 1, 2, 3, name="a")
    rest = table.health().figures
    assert rest.log is not None and rest.log.trouble == ""
    assert (rest.log.lag, rest.log.waiting_ms, rest.log.open_epochs) == (0, None, 0)
    assert rest.log.newest_ms is not None and rest.log.newest_ms == rest.log.files_ms
    with table.writer() as writer:
        writer.write(rows(4, 5, 6, 7))
        writer.flush()
        ahead = table.health().figures
        assert ahead.log is not None
        assert ahead.log.lag >= 4 and ahead.log.open_epochs == 1
        assert ahead.log.waiting_ms is not None and rest.log.newest_ms <= ahead.log.waiting_ms <= ahead.looked_ms
        assert sum(b.end for b in ahead.log.buckets) > sum(b.end for b in rest.log.buckets)
    after = table.health().figures
    assert after.log is not None and (after.log.lag, after.log.open_epochs) == (0, 0)


def kept_ms(location: LogLocation) -> int | None:
    """How long the log system keeps the records; None when that is in the location only."""
    if location.system == "pulsar":
        topic = PulsarTopic(location)
        return 60_000 * int(topic.admin.get(f"{topic.path}/retention")["retentionTimeInMinutes"])
    if location.system == "kafka":
        resource = ConfigResource("topic", location.topic)
        admin = AdminClient({"bootstrap.servers": location.address})
        return int(admin.describe_configs([resource])[resource].result(120)["retention.ms"].value)
    return None


def test_a_retention_that_is_altered_reaches_the_log_or_stays_as_it_was(lake: Lake, new_table: NewTable) -> None:
    log = new_table(bucket="2").logical.log
    assert log is not None
    own = kept_ms(log)
    set_to = "set tblproperties ('log-store.retention' = '{} h')"
    for change, kept in ((set_to.format(2), 7_200_000), ("unset tblproperties ('log-store.retention')", own)):
        lake.sql(f"alter table db.t {change}")
        deadline = time.monotonic() + 120
        while kept_ms(log) not in (None, kept):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    LOG_SYSTEMS.create(log.system).drop(log)
    if not isinstance(LOG_SYSTEMS.create(log.system), EmbeddedLogSystem):  # whose appenders trim by the table's option
        with pytest.raises(NotFound):
            lake.sql(f"alter table db.t {set_to.format(3)}")
        assert "log-store.retention" not in lake.table("db.t").logical.schema.options
