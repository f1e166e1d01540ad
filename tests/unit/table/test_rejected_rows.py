"""Rows that a write cannot take are kept in ``t$rejected``, exactly once with their epoch, and can be replayed."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidOption, InvalidSchema
from lakelog.io.metrics import METER
from lakelog.logstore.clients import appender_for
from lakelog.options.metrics import ROWS_REJECTED
from lakelog.table.log.register import register_follower
from log_tables import log_of
from rejected_tables import JSON_LOG, KEY, LOG, append, given, ids, inserted, make, rejected


def counted() -> float:
    return sum(s.value for s in METER.samples() if s.metric is ROWS_REJECTED)


@pytest.mark.parametrize("options", [LOG, "'write-only' = 'true'"], ids=["log", "files"])
@pytest.mark.parametrize("key", [KEY, ""], ids=["keyed", "keyless"])
def test_a_writer_keeps_the_rows_that_do_not_fit(tmp_path, options, key) -> None:
    columns = "id int not null, name string"
    table = make(tmp_path, options + ("" if key else ", 'bucket-key' = 'id'"), columns, key)
    METER.reset()
    with table.writer() as writer:
        writer.write(given(1, None, 2))
        writer.write(given(None, 3))
    assert ids(table) == [1, 2, 3]
    found = rejected(table, "reason", "epoch", "task", "row", "format", "text", "offset")
    assert [(r["row"], r["task"], r["epoch"], r["offset"]) for r in found] == [(1, 0, 0, None), (3, 0, 0, None)]
    assert all("NULL in column 'id'" in str(r["reason"]) for r in found)
    assert [r["text"] for r in found] == ["id=None, name=a"] * 2
    assert counted() == 2


def test_what_all_rows_have_wrong_fails_as_before(tmp_path) -> None:
    table = make(tmp_path)
    with pytest.raises(InvalidSchema, match="no column 'nme'"), table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1], pa.int32()), "nme": ["a"]}))
    assert rejected(table) == []


@pytest.mark.parametrize("action", ["fail", "skip"])
def test_a_writer_fails_or_skips(tmp_path, action) -> None:
    table = make(tmp_path)
    METER.reset()
    with contextlib.ExitStack() as stack:
        if action == "fail":
            stack.enter_context(pytest.raises(InvalidSchema, match="NULL in column 'id'"))
        with table.writer(options={"on-bad-record": action}) as writer:
            writer.write(given(1, None))
    assert ids(table) == ([] if action == "fail" else [1])
    assert rejected(table) == []
    assert counted() == (0 if action == "fail" else 1)


def test_the_two_rows_of_an_update_are_taken_or_rejected_together(tmp_path) -> None:
    table = make(tmp_path, "'write-only' = 'true'", "id int, name string, much int")
    with table.writer() as writer:
        writer.write(
            pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"], "much": pa.array([1, 1], pa.int32())})
        )
    changes = {
        "id": pa.array([1, 1, 2, 2], pa.int32()),
        "name": ["a", "x", "a", "y"],
        "much": pa.array([1, 2**40, 1, 2], pa.int64()),
        "_row_kind": ["-U", "+U", "-U", "+U"],
    }
    with table.writer() as writer:
        writer.write(pa.table(changes))
    assert sorted((r["id"], r["name"]) for r in table.scan().to_arrow().to_pylist()) == [(1, "a"), (2, "y")]
    assert [r["row"] for r in rejected(table, "row")] == [0, 1]
    connect(warehouse=str(tmp_path / "warehouse")).sql("alter table db.t alter column much type bigint")
    table = connect(warehouse=str(tmp_path / "warehouse")).table("db.t")
    assert (table.replay_rejected().written, rejected(table)) == (2, [])
    assert sorted((r["id"], r["name"]) for r in table.scan().to_arrow().to_pylist()) == [(1, "x"), (2, "y")]


def test_rows_of_an_aborted_write_are_not_there(tmp_path) -> None:
    table = make(tmp_path)
    with pytest.raises(ZeroDivisionError), table.writer() as writer:
        writer.write(given(1, None))
        raise ZeroDivisionError
    assert (ids(table), rejected(table)) == ([], [])
    table.remove_orphan_files(timedelta(0))
    assert list((Path(table.path) / "lakelog" / "rejected" / "rows").glob("*.parquet")) == []


def test_a_follower_keeps_what_it_cannot_read_and_what_does_not_fit(tmp_path) -> None:
    table = make(tmp_path, JSON_LOG)
    register_follower(table.logical)
    METER.reset()
    bad = [b"garbage", b'{"before":null,"after":{"id":null,"name":"x"},"op":"c"}']
    first = append(table, 0, inserted(1), bad[0], inserted(2))
    second = append(table, 1, bad[1], inserted(3))
    list(table.follow(stop="latest"))
    assert ids(table) == [1, 2, 3]
    found = rejected(table, "bucket", "offset", "value", "reason", "topic", "format")
    log = log_of(table)
    assert [(r["bucket"], r["offset"], r["value"]) for r in found] == [(0, first[1], bad[0]), (1, second[0], bad[1])]
    assert {(r["topic"], r["format"]) for r in found} == {(log.topic, "debezium-json")}
    assert counted() == 2
    append(table, 0, b"more", inserted(4))
    list(table.follow(stop="latest"))
    assert len(rejected(table)) == 3  # also those of the snapshot before
    assert table.health().figures.rejected == 3


@pytest.mark.parametrize("content", ["input", "changes"])
def test_a_replay_writes_what_fits_now_and_leaves_the_rest(tmp_path, content: str) -> None:
    table = make(tmp_path, f"{LOG}, 'log.content' = '{content}'", "id int, name string, much int not null")
    rows = pa.table(
        {
            "id": pa.array([1, 2, None], pa.int32()),
            "name": ["a", "b", "c"],
            "much": pa.array([1, None, None], pa.int32()),
        }
    )
    with table.writer() as writer:
        writer.write(rows)
    before = rejected(table, "row", "time", "writer")
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    table = lake.table("db.t")
    assert table.replay_rejected().written == 0
    assert rejected(table, "row", "time", "writer") == before
    lake.sql("alter table db.t alter column much drop not null")
    done = lake.sql("call sys.replay_rejected('db.t')").to_arrow().to_pylist()
    assert done == [{"written_rows": 1, "rejected_rows": 1}]
    assert ids(table) == [1, 2]
    assert rejected(table, "row", "time", "writer") == before[1:]  # as it was
    tailed = [i for batch in lake.table("db.t").tail("earliest", stop="latest") for i in batch["id"].to_pylist()]
    assert sorted(tailed) == [1, 2]
    assert lake.table("db.t").replay_rejected().written == 0
    assert (ids(table), len(rejected(table))) == ([1, 2], 1)


def test_a_replay_of_log_records_writes_files_only(tmp_path) -> None:
    table = make(tmp_path, JSON_LOG, "id int, name string not null")
    register_follower(table.logical)
    append(table, 0, b'{"before":null,"after":{"id":7,"name":null},"op":"c"}', b"garbage")
    list(table.follow(stop="latest"))
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("alter table db.t alter column name drop not null")
    table = lake.table("db.t")
    log = log_of(table)
    ends = appender_for(log).end_offsets()
    done = table.replay_rejected()
    assert (done.written, done.rejected) == (1, 1)
    assert ids(table) == [7]
    assert appender_for(log).end_offsets() == ends
    assert [r["value"] for r in rejected(table, "value")] == [b"garbage"]


def test_a_batch_write_refuses_the_option(tmp_path) -> None:
    table = make(tmp_path)
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    with pytest.raises(InvalidOption, match=r"'on-bad-record' = 'keep' is for streams"):
        lake.write(given(1, None), "db.t", {"on-bad-record": "keep"})
    with pytest.raises(InvalidSchema, match="NULL in column 'id'"):
        lake.write(given(1, None), "db.t")
    assert (ids(table), rejected(table)) == ([], [])
