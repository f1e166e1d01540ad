"""Readers that cannot delete: the guarantee off, and inserts alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest
from lakelog.lake.table import Table
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.logstore.protocol.header import CORRECTION, decode_header, encode_header
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.register import register_writer
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import JSON, log_of, make, rows

Row = tuple[str, int]
OFF = {"log-store.consistency-guarantee.enabled": "false"}
INSERTS = {"log.consumer.changelog.modes": "append-only"}
STRICT = {**INSERTS, "log.consumer.retractions": "error"}


def seen(table: Table, start: str = "earliest", **options: str) -> list[Row]:
    batches = table.tail(start, stop="latest", options=options)
    return [(r["_row_kind"], r["id"]) for batch in batches for r in batch.to_pylist()]


def fail_over(table: Table) -> None:
    """An epoch whose first attempt fails with all of its rows in the log, and its second one counts."""
    register_writer(table.logical, "w")
    tasks = [TaskWriter(table.logical, "w", 0, 0) for _ in range(2)]
    for task in tasks:
        task.write(rows(1, 2).to_batches()[0])
        task.flush_log()
    committer = Committer(table.logical, "w")
    committer.commit(0, [tasks[1].finish()])
    tasks[0].close()
    seal(committer)


@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
def test_what_each_reader_sees_of_a_failover(tmp_path, form) -> None:
    table = make(tmp_path, f", 'log-store.data-format' = '{form}'", key="")
    fail_over(table)
    twice = [("+I", 1)] * 2 + [("+I", 2)] * 2
    assert sorted(seen(table)) == [*twice, ("-D", 1), ("-D", 2)]
    assert sorted(seen(table, **OFF)) == twice, "duplicates stay, nothing is taken back"
    assert sorted(seen(table, **INSERTS)) == twice
    assert sorted(seen(table, **{**STRICT, **OFF})) == twice
    with pytest.raises(InvalidRequest, match=r"kind '-D'.*log\.consistency'='transactional' never shows"):
        seen(table, **STRICT)
    assert sorted(seen(table, **{**STRICT, "log.consistency": "transactional"})) == [("+I", 1), ("+I", 2)]


def test_the_guarantee_off_as_a_property_of_the_table_and_a_hint_that_turns_it_on(tmp_path) -> None:
    table = make(tmp_path, ", 'log-store.consistency-guarantee.enable' = 'false'", key="")
    fail_over(table)
    assert sorted(seen(table)) == [("+I", 1)] * 2 + [("+I", 2)] * 2
    on = seen(table, **{"log-store.consistency-guarantee.enabled": "true"})
    assert sorted(kind for kind, _ in on) == ["+I"] * 4 + ["-D"] * 2


def test_a_record_that_is_given_back_is_not_inserted_twice(tmp_path) -> None:
    """A healer that is late takes rows back that count, the next one gives them back: neither is an insert."""
    table = make(tmp_path, f"{JSON}, 'log.changelog-mode' = 'all'")
    table.write(rows(1))

    log = log_of(table)
    for bucket, end in reader_for(log).end_offsets().items():
        for record in reader_for(log).read(bucket, 0, end).to_pylist():
            if record["value"] is None:
                continue
            head = decode_header(record["header"], 0)
            for op, sign in (("d", -1), ("c", 1)):
                value = record["value"] if op == "c" else b'{"before":{"id":1,"name":"a"},"after":null,"op":"d"}'
                header = encode_header(CORRECTION, head.writer, head.epoch, head.attempt, record["offset"], sign)
                one = Records(
                    pa.array([record["key"]], pa.large_binary()), pa.array([value], pa.large_binary()), header
                )
                appender_for(log).append(bucket, one)
    assert seen(table) == [("+I", 1), ("-D", 1), ("+I", 1)]
    assert seen(table, **INSERTS) == seen(table, **OFF) == [("+I", 1)]


@pytest.mark.parametrize("more", ["", ", 'log.changelog-mode' = 'all'"])
def test_changes_that_are_no_inserts_are_dropped_or_refused(tmp_path, more) -> None:
    table = make(tmp_path, more)
    with table.writer() as writer:
        writer.write(rows(1, 2))
        writer.write(rows(1, kinds=["-D"]))
    assert sorted(seen(table, **INSERTS)) == [("+I", 1), ("+I", 2)]
    with pytest.raises(InvalidRequest, match="'log.consumer.retractions'='drop'"):
        seen(table, **STRICT)
    with pytest.raises(InvalidRequest, match="all-kinds"):
        seen(table, **{**STRICT, "log.consistency": "transactional"})
