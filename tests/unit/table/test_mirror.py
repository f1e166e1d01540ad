"""Mirrors without a broker: what their address may be, which tables have one, and what the log keeps for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidOption, InvalidRequest, NotFound, OffsetExpired, UnsupportedFeature
from lakelog.lake.table import Table
from lakelog.logstore.clients import reader_for
from lakelog.table.log.register import NamedReaders
from lakelog.table.maintenance.retention import expire_log
from lakelog.table.tail.copy import _Collected
from lakelog.table.tail.mirror import MirrorAddress
from lakelog.table.tail.reader_needs import ReaderNeeds, observe
from log_days import LogDays
from log_tables import make, rows

TO = "kafka://localhost:9092/topic"
COMMITTED = {"log.consistency": "transactional"}


@pytest.mark.parametrize(
    "to", ["", "topic", "localhost:9092/topic", "kafka:///topic", "kafka://a:1,/topic", "pulsar://host:6650/topic"]
)
def test_an_address_is_refused_with_one_that_works(tmp_path: Path, to: str) -> None:
    with pytest.raises(InvalidRequest, match="kafka://host:9092/topic"):
        make(tmp_path).mirror(to)


@pytest.mark.parametrize("topic", ["", "a/b", "a b", "a" * 191, "ä", ".", ".."])
def test_a_topic_has_a_name_that_kafka_knows(tmp_path: Path, topic: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be the topic of a mirror"):
        make(tmp_path).mirror(f"kafka://localhost:9092/{topic}")


@pytest.mark.parametrize(
    "to", ["kafka://me:secret@a:1/t", "kafak://me:secret@a:1/t", "me:secret@a:1/t", "kafka://a:1,me:secret@/t"]
)
def test_an_address_has_no_password_and_the_error_does_not_show_it(tmp_path: Path, to: str) -> None:
    with pytest.raises(InvalidRequest, match="client properties") as refused:
        make(tmp_path).mirror(to)
    assert "secret" not in str(refused.value)


def test_the_longest_topic_has_a_named_reader(tmp_path: Path) -> None:
    topic, table = "a" * 190, make(tmp_path).logical
    assert MirrorAddress.parse(f"kafka://a:1/{topic}").topic == topic
    NamedReaders(table.io, table.path).record(f"mirror-{topic}", {0: 0})
    table.store.consumers.record(f"mirror-{topic}", 1)


def test_several_servers_and_a_topic() -> None:
    found = MirrorAddress.parse("kafka://a:1,b:2/db.t-1")
    assert (found.factory.name, found.servers, found.topic) == ("kafka", "a:1,b:2", "db.t-1")


def test_a_table_without_a_log_has_no_mirror(tmp_path: Path) -> None:
    lake = connect(warehouse=str(tmp_path))
    lake.sql("create table db.t (id int)")
    with pytest.raises(InvalidRequest, match="has no log store"):
        lake.table("db.t").mirror(TO)


def test_a_log_on_kafka_is_plain_already(tmp_path: Path) -> None:
    table = make(tmp_path)
    options = {"log-store.type": "kafka", "log-store.address": "broker:9092", "log-store.topic": "changes"}
    plain = with_options(table, **options, **{"log-store.data-format": "debezium-json"})
    with pytest.raises(InvalidRequest, match="plain already: consumers can read topic 'changes' on broker:9092"):
        plain.mirror(TO)
    arrow = with_options(table, **options, **{"log-store.data-format": "arrow"})
    assert arrow.mirror(TO)
    with pytest.raises(InvalidRequest, match="'changes' has the name of the log of table db.t.*another topic"):
        arrow.mirror("kafka://broker:9092/changes")


def with_options(table: Table, **options: str) -> Table:
    schema = table.logical.schema
    changed = table.logical.with_schema(replace(schema, options={**schema.options, **options}))
    return Table(changed, table._to_dataframe, table._alter, table._executor, table._statements, table._write_frame)


@pytest.mark.parametrize("key", ["plugin.library.paths", "transactional.id", "sasl.jaas.config"])
def test_a_client_property_that_may_do_harm_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidOption, match=key):
        make(tmp_path).mirror(TO, properties={key: "x"})


def test_a_transaction_ends_at_a_number_of_bytes_but_not_within_an_update(monkeypatch) -> None:
    monkeypatch.setattr("lakelog.table.tail.copy.monotonic_s", lambda: 0.0)
    monkeypatch.setattr("lakelog.table.tail.copy._MOST_BYTES", 1_000)
    collected = _Collected()
    for name, kind, is_full in (("a", "+I", False), ("b" * 1_000, "-U", False), ("c", "+U", True)):
        collected.add(pa.RecordBatch.from_pylist([{"name": name, "_row_kind": kind}]))
        assert collected.is_full == is_full


def test_a_start_is_one_of_three(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="latest-full, earliest, latest"):
        make(tmp_path).mirror(TO, start="timestamp")


def test_a_system_table_has_no_mirror(tmp_path: Path) -> None:
    make(tmp_path)
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    with pytest.raises((InvalidRequest, UnsupportedFeature)):
        lake.table("db.t$snapshots").mirror(TO)


class Paused:
    """A reader of committed rows that stops between the rows of an epoch and its commit marker, for a long time."""

    def __init__(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        self._table, self._days = table, LogDays(monkeypatch)

    def rows_after_a_pause(self, needs: bool) -> list[int]:
        table = self._table
        open_writer = table.writer()
        open_writer.write(rows(*range(10)))
        open_writer.flush()
        tail = table.tail("latest", stop="latest", options=COMMITTED)
        assert not list(tail)
        offsets, position = tail.reached.log.offsets, tail.position
        self._keep(offsets, needs)
        open_writer.commit()
        open_writer.close()
        self._days.pass_to(100)
        self._write(*range(10, 20))
        expire_log(table.logical)
        later = table.tail(position, stop="latest", options=COMMITTED)
        return sorted(row["id"] for batch in later for row in batch.to_pylist())

    def _keep(self, offsets: Mapping[int, int], needs: bool) -> None:
        if needs:
            ReaderNeeds(self._table.logical, "paused", offsets).record(offsets)
        else:
            NamedReaders(self._table.logical.io, self._table.path).record("paused", offsets)

    def _write(self, *ids: int) -> None:
        self._table.write(rows(*ids))


def test_the_log_keeps_the_rows_before_a_position_that_commit_after_it(tmp_path: Path, monkeypatch) -> None:
    assert Paused(make(tmp_path), monkeypatch).rows_after_a_pause(needs=True) == list(range(20))


def test_a_position_alone_does_not_keep_them(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(OffsetExpired):
        Paused(make(tmp_path), monkeypatch).rows_after_a_pause(needs=False)


def test_a_reader_that_has_passed_the_markers_needs_no_older_record(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("lakelog.table.tail.reader_needs._OBSERVE_EVERY_S", 0.0)
    table = make(tmp_path)
    assert table.logical.log is not None
    reader, firsts = reader_for(table.logical.log), {0: 0, 1: 0}
    needs = ReaderNeeds(table.logical, "r", firsts)
    named = NamedReaders(table.logical.io, table.path)
    table.write(rows(*range(20)))
    needs.record(firsts, is_last=True)
    assert named.needed("r") == firsts
    ends = reader.end_offsets()
    needs.record(ends, is_last=True)
    floors = named.needed("r")
    assert floors is not None and all(0 < floors[bucket] <= ends[bucket] for bucket in ends)
    seen = observe(table.logical)
    assert seen is not None and seen.ends == ends and seen.floors == floors


@pytest.mark.parametrize("call", ["reset_consumer('db.t', 'old')", "clear_consumers('db.t')"])
def test_a_mirror_that_has_ended_is_forgotten_by_a_procedure(tmp_path: Path, call: str) -> None:
    table = make(tmp_path)
    named = NamedReaders(table.logical.io, table.path)
    named.record("old", {0: 1}, {0: 0})
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql(f"call sys.{call}")
        assert not named.list() and named.needed("old") is None
        with pytest.raises(NotFound, match="no consumer 'old'"):
            lake.sql("call sys.reset_consumer('db.t', 'old')")


def test_an_idle_step_of_a_tail_returns_nothing_and_does_not_move_it(tmp_path: Path) -> None:
    table, found = make(tmp_path), list[Any]()
    table.write(rows(1, 2))
    tail = table.tail("earliest", options=COMMITTED)
    while True:
        before = tail.reached
        batch = tail.step()
        found += [] if batch is None else batch.column("id").to_pylist()
        if batch is None and tail.reached == before:
            break
    assert sorted(found) == [1, 2]
    table.write(pa.table({"id": pa.array([3], pa.int32()), "name": ["c"]}))
    assert next(tail).column("id").to_pylist() == [3]
    tail.close()
