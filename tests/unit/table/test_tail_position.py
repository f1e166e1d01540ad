"""The position of a tail: where its batches end, so that another one goes on with nothing twice and nothing missing."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import shutil
import tempfile
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest, NotFound, OffsetExpired, Unavailable
from lakelog.lake.table import Table
from lakelog.logstore import LOG_SYSTEMS, log_factory
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for, drop_clients
from lakelog.logstore.embedded.reader import EmbeddedReader
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.register import register_follower, register_writer
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.staging.task_writer import TaskWriter
from limits import limit
from log_tables import JSON, make, rows, trim

KEYED = ", primary key (id)"
TRANSACTIONAL = {"log.consistency": "transactional"}
WHOLE = {"log.consumer.normalize": "true"}
IDS = range(12)

Told = dict[int, list[tuple[str, str]]]


def told(batches: Iterable[pa.RecordBatch]) -> Told:
    """The changes of each id, in order: buckets have no common one."""
    out = defaultdict(list)
    for batch in batches:
        for row in batch.to_pylist():
            out[row["id"]].append((row["_row_kind"], row["name"]))
    return dict(out)


def in_pieces(table: Table, position: str, **given) -> list[pa.RecordBatch]:
    """Each batch by a tail of its own, up to the end that the log has now."""
    out: list[pa.RecordBatch] = []
    while len(out) < 1_000:
        tail = table.tail(position, stop="latest", **given)
        batch = next(tail, None)
        position = tail.position
        tail.close()
        if batch is None:
            return out
        out.append(batch)
    raise AssertionError("it does not come to an end")


class World:
    """Writers of all kinds, which leave all kinds of records in the log."""

    def __init__(self, table: Table, form: str, seed: int) -> None:
        self.table, self.form, self.dice = table, form, random.Random(seed)
        self.epoch, self.results, self.names = 0, list[AttemptResult](), itertools.count()
        register_writer(table.logical, "w")
        register_follower(table.logical)
        self.committer = Committer(table.logical, "w")

    def rows(self) -> pa.Table:
        chosen = self.dice.sample(IDS, self.dice.randint(1, len(IDS)))
        return rows(*chosen, name=f"name {next(self.names)}")

    def step(self) -> None:
        getattr(self, self.dice.choice(["attempt", "attempt", "decide", "seal", "batch", "batch", "foreign"]))()

    def attempt(self) -> None:
        task = TaskWriter(self.table.logical, "w", self.epoch, len(self.results))
        for _ in range(self.dice.randint(1, 3)):
            task.write(self.rows().to_batches()[0])
            task.flush_log()
        self.results.append(task.finish())

    def decide(self) -> None:
        self.committer.commit(self.epoch, self.results[-1:])
        self.epoch, self.results = self.epoch + 1, []

    def seal(self) -> None:
        seal(self.committer)

    def batch(self) -> None:
        with self.table.writer(options={"emit.mode": self.dice.choice(["auto", "log"])}) as writer:
            writer.write(self.rows())

    def foreign(self) -> None:
        if self.form != "arrow":  # what another producer writes
            value = b'{"before":null,"after":{"id":20,"name":"foreign %d"},"op":"c"}' % next(self.names)
            columns = (pa.array([part], pa.large_binary()) for part in (b'{"id":20}', value))
            appender = appender_for(self.table.logical.log)
            appender.append(0, Records(*columns, [UNOWNED_HEADER]))
            appender.flush()


@pytest.mark.parametrize("start", ["earliest", "latest", "latest-full", {0: 3, 1: 2}])
@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("", {}),
        ("", TRANSACTIONAL),
        (KEYED, {}),
        (KEYED, TRANSACTIONAL),
        (KEYED, WHOLE),
        (KEYED, WHOLE | TRANSACTIONAL),
    ],
)
def test_a_tail_that_stops_anywhere_returns_the_rows_of_an_uninterrupted_one(
    tmp_path, monkeypatch, start, key, options
) -> None:
    seed = zlib.crc32(f"{start} {key} {options}".encode())
    form, most = random.Random(seed).choice([("debezium-json", 5), ("arrow", 5), ("arrow", 100_000)])
    world = World(make(tmp_path, f", 'log-store.data-format' = '{form}'", key), form, seed)
    table, dice = world.table, world.dice
    limit(monkeypatch, read_rows=most)
    monkeypatch.setattr("lakelog.table.log.scan._READ_PACKS", 1)
    for _ in range(8):
        world.step()
    whole = table.tail(start, stop="latest", options=options)  # reads at the end, from where the log is now
    found, position = [], whole.position
    for _ in range(8):
        world.step()
        tail = table.tail(position, stop="latest", options=options)
        found += itertools.islice(tail, dice.randint(0, 4))
        position = tail.position
        if dice.random() < 0.5:
            tail.close()
    world.decide()
    world.seal()
    rest = in_pieces(table, position, options=options)
    assert told(found + rest) == told(whole)
    assert whole.position == table.tail(whole.position, options=options).position


@pytest.mark.parametrize("start", ["earliest", "latest-full"])
@pytest.mark.parametrize("options", [{}, TRANSACTIONAL, WHOLE, WHOLE | TRANSACTIONAL])
def test_every_position_of_a_tail_is_good(tmp_path, monkeypatch, start, options, depth) -> None:
    limit(monkeypatch, read_rows=6)
    world = World(make(tmp_path, JSON), "debezium-json", 7)
    for _ in range(10):
        world.step()
    world.decide()
    world.seal()
    tail = world.table.tail(start, stop="latest", options=options)
    positions, batches = [tail.position], []
    for batch in tail:
        batches.append(batch)
        positions.append(tail.position)
    assert len(positions) > 6
    for count, position in depth.some(list(enumerate(positions))):
        rest = list(world.table.tail(position, stop="latest", options=options))
        assert told(batches[:count] + rest) == told(batches)


def sealed(table: Table, *batches: pa.Table) -> None:
    for batch in batches:
        table.write(batch)


def test_a_long_epoch_is_emitted_in_parts_and_resumes_inside_it(tmp_path, monkeypatch) -> None:
    limit(monkeypatch, read_rows=4)
    table = make(tmp_path, JSON, key="")
    with table.writer() as writer, table.writer() as other:
        writer.write(rows(*range(20), name="long"))
        other.write(rows(*range(20, 30), name="other"))
        other.commit()
    batches = in_pieces(table, table.tail("earliest", options=TRANSACTIONAL).position, options=TRANSACTIONAL)
    assert len(batches) > 6 and told(batches) == {n: [("+I", "long" if n < 20 else "other")] for n in range(30)}, (
        "each row once, by a tail of its own for each batch"
    )
    start = {0: json.loads(table.tail("latest").position)["offsets"]["0"]}
    sealed(table, rows(*range(20), name="next"))
    tail, whole = (table.tail(start, stop="latest", options=TRANSACTIONAL) for _ in range(2))
    expected, seen = told(whole), [next(tail), next(tail)]
    trim(table, json.loads(tail.position)["amid"]["first"])
    seen += table.tail(tail.position, stop="latest", options=TRANSACTIONAL)
    assert told(seen) == expected, "rows that it has told may expire"


def test_the_position_passes_records_that_show_nothing(tmp_path) -> None:
    table = make(tmp_path)
    writer = table.writer()
    writer.write(rows(1))
    writer.flush()
    writer.abort()
    tail = table.tail("earliest", stop="latest", options=TRANSACTIONAL)
    assert list(tail) == []
    ends = {str(bucket): end for bucket, end in trim(table).items()}
    assert json.loads(tail.position)["offsets"] == ends
    sealed(table, rows(2))
    assert told(table.tail(tail.position, stop="latest", options=TRANSACTIONAL)) == {2: [("+I", "a")]}


def test_a_tail_that_a_log_which_is_away_has_ended_goes_on_from_its_position(tmp_path, monkeypatch) -> None:
    limit(monkeypatch, read_rows=7)
    table = make(tmp_path, JSON, key="")
    sealed(table, rows(*range(60)))
    read, dice, failures = EmbeddedReader.read, random.Random(1), 0

    def sometimes(*given) -> pa.Table:
        if dice.random() < 0.3:
            raise Unavailable("away")
        return read(*given)

    monkeypatch.setattr(EmbeddedReader, "read", sometimes)
    seen, tail = [], table.tail("earliest", stop="latest")
    while True:
        try:
            for batch in tail:
                seen.append(batch)  # noqa: PERF402 - those before a failure are kept
            break
        except Unavailable:
            failures += 1
            tail = table.tail(tail.position, stop="latest")
    assert failures > 2 and told(seen) == {n: [("+I", "a")] for n in range(60)}


def test_an_event_ends_a_tail_and_its_position_goes_on(tmp_path, monkeypatch) -> None:
    limit(monkeypatch, read_rows=4)
    table = make(tmp_path, JSON, key="")
    sealed(table, *(rows(n, n + 1) for n in range(3)))
    for start in ("latest-full", "earliest"):
        ended = threading.Event()
        tail = table.tail(start, stop=ended)
        first = next(tail)
        ended.set()
        seen = [first, *tail]
        rest = list(table.tail(tail.position, stop="latest"))
        assert sum(batch.num_rows for batch in seen + rest) == 6 and rest


def test_a_position_of_something_else_is_refused(tmp_path) -> None:
    table = make(tmp_path)
    sealed(table, rows(1))
    position = table.tail("earliest").position
    other = make(tmp_path / "other")
    with pytest.raises(InvalidRequest, match="belongs to another log .* recreated"):
        other.tail(position)
    with pytest.raises(InvalidRequest, match=r"created with 'log.consistency'='eventual'.*set it to 'eventual'"):
        table.tail(position, options=TRANSACTIONAL)
    with pytest.raises(InvalidRequest, match="created with 'log.consumer.normalize'='false'"):
        table.tail(position, options=WHOLE)
    whole = table.tail("earliest", columns=["name"], options=WHOLE).position
    with pytest.raises(InvalidRequest, match=r"'log.consumer.normalize'='true' and columns \['name'\]"):
        table.tail(whole, options=WHOLE)
    with pytest.raises(InvalidRequest, match="'true' and columns"):
        table.tail(whole)
    for text in ("{", "{}", '{"log": 1}', json.dumps({**json.loads(position), "offsets": [1]})):
        with pytest.raises(InvalidRequest):
            table.tail(text)
    assert told(table.tail(position, stop="latest")) == {1: [("+I", "a")]}


@pytest.mark.parametrize("options", [{}, WHOLE])
def test_a_position_that_has_expired_goes_on_as_the_option_says(tmp_path, options) -> None:
    table = make(tmp_path)
    sealed(table, rows(1))
    position = table.tail("earliest", options=options).position
    trim(table)
    sealed(table, rows(2))
    with pytest.raises(OffsetExpired, match="'latest-full'"):
        list(table.tail(position, stop="latest", options=options))
    ids = [
        sorted(told(table.tail(position, stop="latest", options={**options, "scan.expired-offsets": what})))
        for what in ("earliest", "latest-full")
    ]
    assert ids == [[2], [1, 2]]


@pytest.mark.parametrize("options", [{}, WHOLE])
def test_a_snapshot_that_has_expired_is_an_error_or_another_is_read(tmp_path, options) -> None:
    table = make(tmp_path, key=KEYED)
    sealed(table, rows(1), rows(2))
    position = table.tail("latest-full", options=options).position
    table.compact()
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")
    with pytest.raises(NotFound):
        list(table.tail(position, stop="latest", options=options))
    anew = table.tail(position, stop="latest", options={**options, "scan.expired-offsets": "latest-full"})
    assert sorted(told(anew)) == [1, 2] and "full" not in json.loads(anew.position)


def states_of(table: Table) -> list[str]:
    found = [files for path, _, files in os.walk(f"{table.path}/lakelog/normalize") if files != ["alive"]]
    return sorted(name for names in found for name in names)


def test_the_state_of_whole_changes_is_saved_in_the_table_after_the_first_position(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = make(tmp_path)
    sealed(table, rows(1, 2, 3, 4))
    tail = table.tail("latest-full", stop="latest", options=WHOLE)
    assert len(told(tail)) == 4 and states_of(table) == [] and list(tmp_path.glob("lakelog-normalize-*"))
    position = tail.position  # of a tail that has ended
    del tail
    assert states_of(table) and not list(tmp_path.glob("lakelog-normalize-*"))
    sealed(table, rows(1, name="b"))
    ended = threading.Event()
    tail = table.tail(position, stop=ended, options=WHOLE)
    seen = [next(tail)]
    position, before = tail.position, states_of(table)
    ended.set()
    assert list(tail) == []
    table.compact()
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")
    trim(table)
    sealed(table, rows(1, 4, name="c"))
    seen += table.tail(position, stop="latest", options=WHOLE)
    assert told(seen) == {
        1: [("-U", "a"), ("+U", "b"), ("-U", "b"), ("+U", "c")],
        4: [("-U", "a"), ("+U", "c")],
    }, "neither the first snapshot nor the log is needed"
    assert before


@pytest.mark.parametrize("end", ["ended", "killed"])
def test_a_position_after_the_snapshot_needs_it_no_more_if_positions_were_requested_before(tmp_path, end) -> None:
    table, options = make(tmp_path), {**WHOLE, **TRANSACTIONAL}
    sealed(table, rows(1))
    tail = table.tail("latest-full", stop="latest" if end == "ended" else None, options=options)
    assert "full" in json.loads(tail.position)
    while "full" in (position := tail.position):
        tail.step()
    if end == "ended":
        assert list(tail) == []
        position = tail.position
    tail.close()  # saves nothing
    sealed(table, rows(1, name="b"), rows(3))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")
    found = told(table.tail(position, stop="latest", options=options))
    assert found == {1: [("-U", "a"), ("+U", "b")], 3: [("+I", "a")]}


def test_states_that_no_position_needs_any_more_go(tmp_path, monkeypatch) -> None:
    for name in ("normalizer._SAVE_ROWS", "normalizer._DELETE_INTERVAL_S", "subscribe._DELETE_INTERVAL_S"):
        monkeypatch.setattr(f"lakelog.table.tail.{name}", 0)
    table = make(tmp_path)
    tail = table.tail("earliest", options=WHOLE)
    positions, counts = [tail.position], []
    for number in range(8):
        sealed(table, rows(1, name=str(number)))
        next(tail)
        positions.append(tail.position)
        counts.append(sum(name.startswith("at-") for name in states_of(table)))
    tail.close()
    assert max(counts[4:]) <= 5, counts  # of two buckets
    trim(table, json.loads(positions[-2])["offsets"]["0"])
    for position, told_last in zip(positions[-2:], [["-U", "+U"], []], strict=True):
        found = told(table.tail(position, stop="latest", options=WHOLE))
        assert [kind for kind, _ in found.get(1, [])] == told_last


def test_an_async_tail_ends_where_its_batches_end(tmp_path) -> None:
    table = make(tmp_path, key="")
    sealed(table, *(rows(n) for n in range(4)))

    async def program() -> tuple[list[pa.RecordBatch], str]:
        tail = table.tail_async("earliest")
        seen = [await anext(tail), await anext(tail)]
        before = tail.position
        await tail.aclose()
        assert tail.position == before

        tail = table.tail_async(before)
        task = asyncio.create_task(anext(tail))
        await asyncio.sleep(0)
        task.cancel()  # its thread reads on
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)
        assert tail.position == before, "nobody was given what it read"
        return seen + [batch async for batch in table.tail_async(before, stop="latest")], before

    seen, _ = asyncio.run(program())
    assert told(seen) == {n: [("+I", "a")] for n in range(4)}


@pytest.mark.parametrize("options", [{}, TRANSACTIONAL, WHOLE], ids=["eventual", "transactional", "whole"])
@pytest.mark.parametrize("later", [0, 6], ids=["as it was", "written since"])
@pytest.mark.parametrize("system", [name for name in LOG_SYSTEMS if log_factory(name).is_local])
def test_a_position_in_a_log_that_an_older_copy_replaced_is_refused_and_no_row_is_skipped(
    tmp_path: Path, system: str, later: int, options: dict[str, str]
) -> None:
    table = make(tmp_path, f", 'log-store.type' = '{system}'")
    write_one(table, 0)
    shutil.copytree(tmp_path / "warehouse", tmp_path / "copy")
    early = table.tail("earliest", stop="latest", options=options)
    list(early)
    before = early.position
    for number in range(1, 4):
        write_one(table, number)
    late = table.tail("earliest", stop="latest", options=options)
    list(late)
    after = late.position
    drop_clients()
    shutil.rmtree(tmp_path / "warehouse")
    shutil.copytree(tmp_path / "copy", tmp_path / "warehouse")
    table = connect(warehouse=str(tmp_path / "warehouse")).table("db.t")
    for number in range(10, 10 + later):
        write_one(table, number)
    with pytest.raises(InvalidRequest, match="An older copy of the table was restored"):
        table.tail(after, stop="latest", options=options)
    if options != WHOLE:  # its state was lost with the newer table
        assert sorted(told(table.tail(before, stop="latest", options=options))) == sorted(
            n + more for n in range(10, 10 + later) for more in (0, 100)
        )


def write_one(table: Table, number: int) -> None:
    table.write(rows(number, number + 100))
