"""Rows that were written to the log first become files exactly once, whatever dies when."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from faults import DIE_AFTER, FAIL_BEFORE, LATE, LOST, Died, FaultPlan, FaultyFileIO
from lakelog import connect
from lakelog.errors import Corrupt, InvalidSchema, LakelogError, NotFound, OffsetExpired
from lakelog.io.clock import now_ms
from lakelog.lake.table import Table
from lakelog.logstore import LOG_SYSTEMS
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for, close_clients
from lakelog.logstore.formats import log_format
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.options.log import DATA_FORMAT
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.rows.row_kind import DELETE, INSERT
from lakelog.table.commit import file_commit
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import FOLLOWER, LogState, WriterState, newest_state
from lakelog.table.read.file_scan import Scan
from lakelog.table.write import materializer as follower
from lakelog.table.write.materializer import LogMaterializer
from log_tables import JSON, append_foreign, expire_records, log_of
from record_batches import PlainRecord


def make(place: Path, more: str = "", key: str = ", primary key (id)", buckets: int = 2) -> Table:
    lake = connect(warehouse=str(place / "warehouse"))
    lake.sql(
        f"create table db.t (id int, name string{key}) using lakelog tblproperties ('log-store.enabled' = 'true', "
        f"'bucket' = '{buckets}', 'write-only' = 'true', 'commit.max-retry-wait' = '1 ms', "
        f"'commit.interval' = '1 ms'{more})"
    )
    return lake.table("db.t")


def log_first(table: Table, ids: range, name: str, kind: int = INSERT, header: bytes = UNOWNED_HEADER) -> None:
    """Appends rows to the log as a real-time query does."""
    dynamic = table.logical
    rows = pa.record_batch({"id": pa.array(ids, pa.int32()), "name": [name] * len(ids)})
    buckets = bucket_of_rows(rows, dynamic.schema)
    assert dynamic.log is not None
    appender = appender_for(dynamic.log)
    for bucket in (0, 1):
        part = rows.take(pa.array(np.flatnonzero(buckets == bucket)))
        kinds = np.full(part.num_rows, kind, np.int8)
        keys = dynamic.schema.primary_keys
        if part.num_rows:
            places = {bucket: np.arange(part.num_rows)}
            made = log_format(dynamic.options.need(DATA_FORMAT))
            packed = made.messages(part, kinds, dynamic.changelog_mode, keys, header, places)
            appender.append(bucket, packed[bucket].records)
    appender.flush()


def content(table: DynamicTable) -> dict[int, str]:
    rows = Scan(table).to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["name"] for row in rows}


def followed(table: Table) -> list[int | None]:
    return [snapshot.delta_record_count for snapshot in table.follow(stop="latest")]


def test_unowned_rows_become_files_and_rows_of_writers_are_not_duplicated(tmp_path) -> None:
    table = make(tmp_path)
    log_first(table, range(10), "first")
    table.write(pa.table({"id": pa.array(range(5, 15), pa.int32()), "name": ["both"] * 10}))
    log_first(table, range(12, 14), "later")
    log_first(table, range(2), "", kind=DELETE)
    assert followed(table) == [12], "the deletes took the place of two rows"
    # the rows of nobody come after what was in the files when they were followed
    want = dict.fromkeys(range(2, 10), "first") | dict.fromkeys(range(10, 15), "both") | {12: "later", 13: "later"}
    assert content(table.logical) == want
    assert followed(table) == []
    log_first(table, range(100, 101), "more")
    assert followed(table) == [1]
    assert content(table.logical) == want | {100: "more"}


def test_a_table_without_a_key_has_every_row_once(tmp_path) -> None:
    table = make(tmp_path, ", 'bucket-key' = 'id'", key="")
    for number in range(3):
        log_first(table, range(4), f"n{number}")
        assert followed(table) == [4]
    rows = table.scan().to_arrow()
    assert sorted(zip(*rows.to_pydict().values(), strict=True)) == [(i, f"n{n}") for i in range(4) for n in range(3)]


def test_records_of_a_plain_producer_are_rows_and_its_tombstones_are_nothing(tmp_path) -> None:
    table = make(tmp_path, JSON)
    value = b'{"before":null,"after":{"id":7,"name":"plain"},"op":"c"}'
    assert table.logical.log is not None
    append_foreign(table.logical.log, 1, [PlainRecord(n, 0, b'{"id":7}', v) for n, v in enumerate((value, None))])
    assert [b.to_pylist() for b in table.tail("earliest", stop="latest")] == [
        [{"id": 7, "name": "plain", "_row_kind": "+I"}]
    ]
    assert followed(table) == [1]
    assert content(table.logical) == {7: "plain"}


def test_char_of_a_plain_producer_has_its_length_in_every_reader(tmp_path) -> None:
    lake = connect(tmp_path)
    lake.sql(
        "create table t (id int, c char(5), primary key (c)) with ('bucket' = '1', 'log-store.enabled' = 'true', "
        "'log-store.data-format' = 'debezium-json')"
    )
    table = lake.table("t")
    list(table.follow("latest"))
    changes = (
        b'{"before":null,"after":{"id":1,"c":"a"},"op":"c"}',
        b'{"before":{"id":1,"c":"a  "},"after":{"id":2,"c":"b       "},"op":"u"}',
    )
    append_foreign(log_of(table), 0, [PlainRecord(n, 0, b"{}", text) for n, text in enumerate(changes)])
    left = [{"id": 2, "c": "b    "}]
    assert table.scan(options={"read.mode": "union"}).to_arrow().to_pylist() == left
    assert {row["c"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()} == {
        "a    ",
        "b    ",
    }
    assert list(table.follow("latest"))
    assert table.to_arrow().to_pylist() == left


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([(None, {"ID": 1, "V": "a", "N": "1.50"})], [(1, "a", "1.50")]),
        ([(None, {"id": 1, "v": "a", "n": "1.50"}), ({"id": 1}, None)], []),
        ([(None, {"ID": 1, "V": "a", "N": "1.50"}), ({"ID": 1}, None)], []),
        ([({"id": 1}, {"id": 1, "v": "b", "n": "2.50"})], [(1, "b", "2.50")]),
        ([(None, {"id": 2, "v": "a", "n": "1.50"}), ({"id": 1}, None)], [(2, "a", "1.50")]),
    ],
)
def test_rows_of_a_connector_are_read_by_every_reader(tmp_path, changes, left) -> None:
    """Names in capitals, and old images of the key alone in a table with columns that are NOT NULL."""
    lake = connect(tmp_path)
    lake.sql(
        "create table t (id bigint, v string not null, n decimal(5,2) not null, primary key (id)) with ("
        "'bucket' = '1', 'log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json')"
    )
    table = lake.table("t")
    assert list(table.follow("latest")) == []
    ops = {(False, True): "c", (True, False): "d", (True, True): "u"}
    texts = [json.dumps({"before": b, "after": a, "op": ops[bool(b), bool(a)]}).encode() for b, a in changes]
    append_foreign(table.logical.log, 0, [PlainRecord(n, 0, b"{}", text) for n, text in enumerate(texts)])
    union = {"read.mode": "union"}
    kinds = [row["_row_kind"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert kinds == [kind for b, a in changes for kind in (["-U", "+U"] if b and a else ["-D"] if b else ["+I"])]
    want = [(key, text, Decimal(number)) for key, text, number in left]
    assert table.scan(options=union).to_polars().rows() == want
    list(table.follow("latest"))
    for _ in range(2):
        assert table.scan().to_polars().rows() == want == table.scan(options=union).to_polars().rows()
        table.compact()


LACKS = b'{"before":null,"after":{"id":1},"op":"c"}'
WHOLE = b'{"before":null,"after":{"ID":2,"Name":null},"op":"c"}'


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ("", None),
        (", 'on-bad-record' = 'keep'", {1: "old", 2: None}),
        (", 'on-bad-record' = 'skip'", {1: "old", 2: None}),
        (", 'write.missing-columns' = 'null'", {1: None, 2: None}),
    ],
)
def test_a_record_that_lacks_columns_is_no_row_of_nulls(tmp_path, more, left) -> None:
    table = make(tmp_path, f"{JSON}{more}", buckets=1)
    assert table.logical.log is not None
    whole = b'{"before":{"id":1},"after":{"id":1,"name":"old"},"op":"u"}'
    append_foreign(table.logical.log, 0, [PlainRecord(0, 0, b"1", whole)])
    assert followed(table) == [1]
    gone = b'{"before":{"id":3},"after":null,"op":"d"}'
    append_foreign(table.logical.log, 0, [PlainRecord(n, 0, b"1", v) for n, v in enumerate((gone, WHOLE, LACKS))])
    if left is None:
        with pytest.raises(InvalidSchema, match=r"(?s)offset 3 of bucket 0.*lack the column 'name'.*missing='null'"):
            followed(table)
        left = {1: "old"}
    else:
        followed(table)
    assert content(table.logical) == left


def test_a_column_that_a_record_lacks_has_its_default_or_is_newer_than_the_record(tmp_path) -> None:
    table = make(tmp_path, JSON, buckets=1)
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    append_foreign(table.logical.log, 0, [PlainRecord(0, 0, b"1", WHOLE)])
    lake.sql("alter table db.t add column later int")
    assert followed(lake.table("db.t")) == [1]
    lake.sql("alter table db.t alter column name set default 'x'")
    append_foreign(table.logical.log, 0, [PlainRecord(0, 0, b"1", LACKS)])
    assert followed(lake.table("db.t")) == [1]
    assert content(lake.table("db.t").logical) == {1: "x", 2: None}


@pytest.mark.parametrize("bad", ["fail", "keep"])
@pytest.mark.parametrize("old", ['{"id":1,"name":"a"}', '{"id":1}'], ids=["whole", "key"])
def test_an_update_that_moves_the_key_removes_the_old_row(tmp_path, old: str, bad: str) -> None:
    table = make(tmp_path, f"{JSON}, 'on-bad-record' = '{bad}'", buckets=1)
    values = [
        '{"before":null,"after":{"id":1,"name":"a"},"op":"c"}',
        f'{{"before":{old},"after":{{"id":2,"name":"b"}},"op":"u"}}',
        '{"before":{"id":2,"name":"b"},"after":{"id":2,"name":"B"},"op":"u"}',
    ]
    followed(table)
    records = [PlainRecord(n, 0, b'{"id":7}', v.encode()) for n, v in enumerate(values)]
    append_foreign(table.logical.log, 0, records)  # type: ignore[arg-type]
    union = table.scan(options={"read.mode": "union"}).to_arrow().to_pylist()
    followed(table)
    assert union == [{"id": 2, "name": "B"}]
    assert content(table.logical) == {2: "B"}


def test_a_record_of_another_version_stops_the_follower(tmp_path) -> None:
    table = make(tmp_path)
    log_first(table, range(3), "a", header=b"3|d||0|")
    with pytest.raises(Corrupt, match="version"):
        followed(table)
    assert table.latest_snapshot() is None


def test_large_rows_become_files_as_they_are_read(tmp_path) -> None:
    table = make(tmp_path, ", 'write-buffer-size' = '1 kb'")
    for number in range(5):
        log_first(table, range(number * 100, number * 100 + 200), f"n{number}")
    assert sum(filter(None, followed(table))) >= 600
    assert content(table.logical) == {i: f"n{min(i // 100, 4)}" for i in range(600)}


def test_columns_that_came_since_are_followed_too(tmp_path) -> None:
    table = make(tmp_path, JSON)
    follower_ = table.follow()
    log_first(table, range(2), "a")
    assert next(follower_).id == 1
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("alter table db.t add column more int")
    appender = appender_for(table.logical.log)  # type: ignore[arg-type]
    value = b'{"before":null,"after":{"id":9,"name":"b","more":3},"op":"c"}'
    given = [pa.array([text], pa.large_binary()) for text in (b'{"id":9}', value)]
    appender.append(0, Records(given[0], given[1], UNOWNED_HEADER))
    assert next(follower_).id == 2
    assert {"id": 9, "name": "b", "more": 3} in lake.table("db.t").scan().to_arrow().to_pylist()


def test_of_two_followers_one_makes_each_row(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    log_first(table, range(10), "a")
    real, others = file_commit.level0_files_of, []

    def meanwhile(*given: object) -> object:
        ready = real(*given)  # type: ignore[arg-type]
        if not others:
            others.append(None)
            log_first(table, range(10, 15), "b")
            others.append(followed(table))
        return ready

    monkeypatch.setattr(file_commit, "level0_files_of", meanwhile)
    assert followed(table) == [], "the other one was first, and has come further"
    assert others[1] == [15]
    assert sorted(content(table.logical)) == list(range(15))
    assert followed(table) == []
    data = [f for b in (0, 1) for f in Path(table.path, f"bucket-{b}").glob("*.parquet")]
    assert len(data) == 2, "the files of the one that came too late are gone"


def test_offsets_move_on_without_rows_when_others_write_much(tmp_path, monkeypatch) -> None:
    table = make(tmp_path, JSON)
    monkeypatch.setattr(follower, "_PASSED", 20)
    table.write(pa.table({"id": pa.array(range(30), pa.int32()), "name": ["w"] * 30}))
    assert followed(table) == [0]
    assert followed(table) == []
    assert content(table.logical) == dict.fromkeys(range(30), "w")


def test_offsets_move_on_without_rows_when_others_have_written_for_long(tmp_path, monkeypatch) -> None:
    table = make(tmp_path, ", 'log-store.retention' = '2 min'")
    now = [now_ms()]
    monkeypatch.setattr(follower, "now_ms", lambda: now[0])
    log_first(table, range(2), "a")
    assert followed(table) == [2]
    table.write(pa.table({"id": pa.array(range(2, 4), pa.int32()), "name": ["w"] * 2}))
    ends = LogScan(table.logical).reader.end_offsets()
    now[0] += 29_000
    assert followed(table) == []
    now[0] += 2_000
    assert followed(table) == [0], "a quarter of the retention is over, whoever follows"
    assert newest_state(table.logical.store)[1].writers[FOLLOWER].verified == ends
    now[0] += 10**6
    assert followed(table) == [], "nobody has written"
    for bucket, end in ends.items():
        trim(table, bucket, end)
    log_first(table, range(4, 6), "b")
    assert followed(table) == [2]
    assert content(table.logical) == {0: "a", 1: "a", 2: "w", 3: "w", 4: "b", 5: "b"}


def test_the_first_offsets_are_kept_while_only_other_writers_write(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    table.write(pa.table({"id": pa.array(range(4), pa.int32()), "name": ["w"] * 4}))
    assert followed(table) == []
    later = now_ms() + 61_000
    monkeypatch.setattr(follower, "now_ms", lambda: later)
    assert followed(table) == [0]
    assert followed(table) == []


def trim(table: Table, bucket: int, offset: int) -> None:
    """What retention does."""
    with sqlite3.connect(table.logical.log.address) as log:  # type: ignore[union-attr]
        expire_records(log, bucket, offset)


def test_records_that_expired_before_they_were_followed_are_an_error_or_skipped(tmp_path) -> None:
    table = make(tmp_path, JSON)
    log_first(table, range(10), "a")
    assert followed(table) == [10]
    log_first(table, range(10, 20), "b")
    here = newest_state(table.logical.store)[1].writers[FOLLOWER].verified
    trim(table, 0, here[0] + 2)
    with pytest.raises(OffsetExpired, match=r"log-store\.retention.*skip_missing"):
        followed(table)
    assert [s.delta_record_count for s in table.follow(stop="latest", skip_missing=True)] == [8]


def test_a_recreated_log_is_an_error_or_read_from_its_start(tmp_path) -> None:
    table = make(tmp_path, JSON)
    log_first(table, range(10), "a")
    assert followed(table) == [10]
    with sqlite3.connect(table.logical.log.address) as log:  # type: ignore[union-attr]
        log.execute("delete from batches")
        log.execute("update ends set next = 0, trimmed = 0")
    close_clients()  # those who have it open say so by themselves
    with pytest.raises(NotFound, match="recreated"):
        followed(table)
    log_first(table, range(20, 23), "b")
    assert [s.delta_record_count for s in table.follow(stop="latest", skip_missing=True)] == [3]
    assert sum(batch.num_rows for batch in table.tail("earliest", stop="latest")) == 3


def test_its_place_in_the_log_is_never_forgotten() -> None:
    old, new = WriterState(3, {0: 9}, 0), WriterState(1, {0: 5}, 10**13, once=True)
    state = LogState({FOLLOWER: old, "closed": new, "new": new}).without_finished(["new"])
    assert set(state.writers) == {FOLLOWER, "new"}


def attempt(made: Path, place: Path, plan: FaultPlan) -> None:
    """On a copy of a table a follower meets a fault; another one goes on."""
    shutil.copytree(made, place)
    handle = connect(warehouse=str(place / "warehouse")).table("db.t")
    table = handle.logical
    broken = replace(table, location=replace(table.location, io=FaultyFileIO(table.io, plan)))
    with contextlib.suppress(Died, LakelogError):
        list(LogMaterializer(broken).follow("latest"))
    plan.arrive()
    has_come = FOLLOWER in newest_state(table.store)[1].writers
    assert content(table) == (dict.fromkeys(range(6), "a") if has_come else {})
    log_first(handle, range(3, 9), "b")
    list(LogMaterializer(table).follow("latest"))
    assert content(table) == dict.fromkeys(range(3), "a") | dict.fromkeys(range(3, 9), "b")
    assert sum(s.delta_record_count or 0 for s in table.store.snapshots.backwards()) == (12 if has_come else 9)


@pytest.mark.parametrize(
    ("more", "kinds"),
    [("", (DIE_AFTER, FAIL_BEFORE, LOST, LATE)), (", 'write-buffer-size' = '1 b'", (DIE_AFTER,))],
    ids=["inline", "files"],
)
def test_a_follower_that_dies_at_any_call_leaves_each_row_to_the_next_one_once(tmp_path, more, kinds) -> None:
    made, counting = tmp_path / "made", FaultPlan()
    log_first(make(made, more), range(6), "a")
    attempt(made, tmp_path / "whole", counting)
    assert len(counting.calls) >= 7
    for call in counting.calls:
        for kind in kinds:
            attempt(made, tmp_path / f"{kind} {call.number}", FaultPlan({call.number: kind}))


@pytest.fixture
def gone(tmp_path) -> Iterator[Table]:
    table = make(tmp_path)
    log = log_of(table)
    LOG_SYSTEMS.create(log.system).drop(log)
    yield table
