"""Hostile records, damaged files and suspended replays: no process ends, no row is lost, and none comes twice."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog import connect
from lakelog.errors import CommitConflict
from lakelog.io.metrics import METER
from lakelog.lake.table import Table
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.formats import log_format
from lakelog.logstore.protocol.header import DATA, UNOWNED_HEADER, encode_header
from lakelog.options.metrics import ROWS_REJECTED
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.take_over import end_writer
from lakelog.table.log.register import register_follower
from lakelog.table.log.scan import LogScan
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.registrations import BATCH
from lakelog.table.rejected.rows import Rejects
from lakelog.table.staging import task_writer
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write import materializer
from limits import forget_tables
from log_tables import log_of
from rejected_tables import KEY, LOG, append, given, ids, inserted, make, rejected, reopened

FILES = "'write-only' = 'true'"
JSON = f"{LOG}, 'log-store.data-format' = 'debezium-json'"
COLUMNS = "id int, name string not null, ts timestamp"
DECIMAL = (
    b'{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"1000000000"},"field":"de"}'
)
VARIABLE = (
    b'{"type":"struct","name":"io.debezium.data.VariableScaleDecimal","field":"de",'
    b'"fields":[{"type":"int32","field":"scale"},{"type":"bytes","field":"value"}]}'
)
CONNECTOR = (
    b'{"schema":{"fields":[{"type":"struct","field":"after","fields":[{"type":"int32","field":"id"},%s]}]},'
    b'"payload":{"before":null,"after":{"id":1,"de":%s},"op":"c"}}'
)
HOSTILE = {
    "a tiny number": b'{"before":null,"after":{"id":1,"de":"1E-1000000000"},"op":"c"}',
    "a small number that pyarrow reads as zero": b'{"before":null,"after":{"id":1,"de":"1E-999"},"op":"c"}',
    "a tiny number beside a text": b'{"before":null,"after":{"id":"1","de":"1E-1000000000"},"op":"c"}',
    "a huge number": b'{"before":null,"after":{"id":1,"de":"1E1000000000"},"op":"c"}',
    "a huge scale": CONNECTOR % (DECIMAL, b'"AfQ="'),
    "a huge scale of a value": CONNECTOR % (VARIABLE, b'{"scale":1000000000,"value":"AQ=="}'),
    "a schema whose fields are no objects": b'{"schema":{"fields":[1,2]},"payload":{}}',
}


def in_log(table: Table) -> list[int]:
    """The ids of a table as its log tells them."""
    found: list[int] = []
    for batch in table.tail("earliest", stop="latest"):
        for kind, number in zip(batch["_row_kind"].to_pylist(), batch["id"].to_pylist(), strict=True):
            found.append(number) if kind in ("+I", "+U") else found.remove(number)
    return sorted(found)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_record_is_one_rejected_row(tmp_path: Path, name: str) -> None:
    table = make(tmp_path, JSON, "id int, de decimal(10, 2)")
    register_follower(table.logical)
    good = [b'{"before":null,"after":{"id":%d,"de":"1.50"},"op":"c"}' % number for number in (100, 101)]
    append(table, 0, good[0], HOSTILE[name], good[1])
    list(table.follow(stop="latest"))
    assert ids(table) == [100, 101] and len(rejected(table)) == 1


@pytest.mark.parametrize("end", [0x7FFFFFFF, -5, 65281, 200])
def test_a_damaged_record_of_an_arrow_log_is_one_rejected_row(tmp_path: Path, end: int) -> None:
    table = make(tmp_path, f"{LOG}, 'log-store.data-format' = 'arrow'")
    register_follower(table.logical)

    def record(number: int) -> bytes:
        rows = pa.RecordBatch.from_pylist(
            [{"id": number, "name": "abcd"}, {"id": number + 1000, "name": "efgh"}], LogScan(table.logical).data_schema
        )
        made = log_format("arrow").messages(rows, np.zeros(2, np.int8), "all", ["id"], b"", {0: np.arange(2)})
        value: bytes = made[0].records.values[0].as_py()
        return value

    offsets = struct.pack("<iii", 0, 4, 8)  # of the texts
    damaged = record(1).replace(offsets, struct.pack("<iii", 0, end, 8))
    assert damaged != record(1)
    append(table, 0, record(100), damaged, record(101))
    list(table.follow(stop="latest"))
    assert ids(table) == [100, 101, 1100, 1101] and len(rejected(table)) == 1


def test_a_damaged_value_among_rejected_rows_hides_only_itself(tmp_path: Path) -> None:
    table = make(tmp_path, FILES, "id int not null, a array<string>", "")
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([None, None], pa.int32()), "a": [["abcd", "efgh"], ["ij"]]}))
    (file,) = tmp_path.glob("**/rejected/rows/*.parquet")
    rows = pq.read_table(file)
    values = rows["value"].to_pylist()
    damaged = values[0].replace(struct.pack("<iii", 0, 4, 8), struct.pack("<iii", 0, 0x7FFFFFFF, 8))
    assert damaged != values[0]
    at = rows.schema.get_field_index("value")
    column = pa.array([damaged, values[1]], pa.large_binary())
    pq.write_table(rows.set_column(at, rows.schema.field("value"), column), file)
    assert [row["text"] is None for row in rejected(table, "text")] == [True, False]
    summary = reopened(tmp_path, "alter column id drop not null").replay_rejected()
    assert (summary.written, summary.rejected) == (1, 1)


def test_rejected_rows_are_read_by_row_groups(tmp_path: Path) -> None:
    """A batch over row groups would be as large as the file."""
    table = make(tmp_path, FILES, "id int not null, name string", "")
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([None] * 6, pa.int32()), "name": ["x" * (3 << 20)] * 6}))
    (file,) = tmp_path.glob("**/rejected/rows/*.parquet")
    groups = pq.ParquetFile(file).num_row_groups
    sizes = [
        batch.nbytes
        for batch in connect(warehouse=str(tmp_path / "warehouse")).table("db.t$rejected").scan().to_batches()
    ]
    assert groups > 1 and max(sizes) < 16 << 20


def test_good_rows_of_more_than_2_gib_are_all_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, FILES, "id int, v binary", "").logical
    huge = pa.allocate_buffer(1_100 << 20)  # never touched: it takes no memory

    def large(number: int) -> pa.RecordBatch:
        ends = pa.py_buffer(np.array([0, huge.size], np.int32).tobytes())
        return pa.record_batch(
            {"id": pa.array([number], pa.int32()), "v": pa.Array.from_buffers(pa.binary(), 1, [None, ends, huge])}
        )

    small = pa.record_batch({"id": pa.array(range(12, 36), pa.int32()), "v": pa.array([b"x"] * 24, pa.binary())})
    parts = [(part, np.zeros(part.num_rows, np.int8)) for part in (large(10), large(11), small)]
    monkeypatch.setattr(task_writer, "judged", lambda *_: iter([parts]))
    written: list[tuple[int, int]] = []
    task = TaskWriter(table, "w", 0, 0, rejects=Rejects(table, "w", 0, 0, True))
    monkeypatch.setattr(task, "write_checked", lambda rows, kinds: written.append((rows.num_rows, len(kinds))))
    source: Any = None
    task.write_good(source)
    assert sum(rows for rows, _ in written) == 26 and all(rows == kinds for rows, kinds in written)


GAP = ", 'watermark.column' = 'ts', 'emit.auto-write-to-logstore.watermark-gap' = '1 min'"


@pytest.mark.parametrize(("key", "more"), [("", ""), (KEY, ""), ("", GAP)], ids=["no key", "key", "backfill"])
@pytest.mark.parametrize("before", ["check", "decision"])
def test_a_replay_that_wakes_up_after_another_one_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, more: str, before: str
) -> None:
    table = make(tmp_path, LOG + more, COLUMNS, key)

    def rows(name: str | None) -> pa.Table:
        columns = {"id": pa.array([1, 2, 3], pa.int32()), "name": [name, "a", name]}
        return pa.table({**columns, "ts": pa.array([0, 0, 0], pa.timestamp("us"))})

    with table.writer() as writer:
        writer.write(rows(None))
    table = reopened(tmp_path, "alter column name drop not null")
    done = []

    def others(replay: str) -> None:
        """The replay is suspended for longer than its lease; another one, and a later write, come meanwhile."""
        done.append(replay)
        table.logical.registered.drop(replay)
        table.logical.registered.write_lease(replay, BATCH)
        forget_tables()
        assert reopened(tmp_path).replay_rejected().written == 2
        with reopened(tmp_path).writer() as writer:
            writer.write(rows("newer").slice(0, 1))

    decide, commit = DecidedEpochs.decide, Committer.commit

    def decided(self: DecidedEpochs, wanted: Any, *rest: Any) -> Any:
        if before == "decision" and wanted.attempts and wanted.writer.startswith("replay-rows-") and not done:
            others(wanted.writer)
        return decide(self, wanted, *rest)

    def committed(self: Committer, epoch: int, results: Any) -> Any:
        if before == "check" and results and self.writer.startswith("replay-rows-") and not done:
            others(self.writer)
        return commit(self, epoch, results)

    monkeypatch.setattr(DecidedEpochs, "decide", decided)
    monkeypatch.setattr(Committer, "commit", committed)
    with pytest.raises(CommitConflict):
        table.replay_rejected()
    assert done
    table = reopened(tmp_path)
    assert ids(table) == ([1, 2, 3] if key else [1, 1, 2, 3])
    if not more:
        assert in_log(table) == [1, 1, 2, 3]  # the later write has no before-image
    if key:
        assert table.scan(filter="id = 1").to_arrow()["name"].to_pylist() == ["newer"]


def test_a_replay_by_a_handle_from_before_the_alter_writes_the_rows(tmp_path: Path) -> None:
    table = make(tmp_path, LOG, "id int, name string not null")
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1], pa.int32()), "name": pa.array([None], pa.string())}))
    reopened(tmp_path, "alter column name drop not null")
    assert table.replay_rejected().written == 1 and ids(reopened(tmp_path)) == [1]


@pytest.mark.parametrize("options", [LOG, FILES])
def test_a_replay_after_names_were_swapped_finds_columns_by_id(tmp_path: Path, options: str) -> None:
    table = make(tmp_path, options, "id int, a string, b string not null, c string")
    with table.writer() as writer:
        writer.write(
            pa.table({"id": pa.array([1], pa.int32()), "a": ["of a"], "b": pa.nulls(1, pa.string()), "c": ["of c"]})
        )
    for change in ("rename column a to x", "rename column b to a", "rename column x to b", "drop column c"):
        reopened(tmp_path, change)
    table = reopened(tmp_path, "alter column a drop not null")
    assert table.replay_rejected().written == 1
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "b": "of a", "a": None}]


def test_a_record_that_was_rejected_before_a_rename_is_replayed_by_id(tmp_path: Path) -> None:
    table = make(tmp_path, JSON, "id int, a string, b string not null")
    register_follower(table.logical)
    append(table, 0, b'{"before":null,"after":{"id":1,"a":"of a","b":null},"op":"c"}')
    list(table.follow(stop="latest"))
    assert len(rejected(table)) == 1
    for change in ("rename column a to x", "rename column b to a", "rename column x to b"):
        reopened(tmp_path, change)
    table = reopened(tmp_path, "alter column a drop not null")
    append(table, 0, b'{"before":null,"after":{"id":2,"a":"of a","b":null},"op":"c"}')  # by the first names
    list(table.follow(stop="latest"))
    assert table.replay_rejected().written == 1
    rows = sorted(table.scan().to_arrow().select(["id", "a", "b"]).to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": 1, "a": None, "b": "of a"}, {"id": 2, "a": None, "b": "of a"}]


def test_a_record_that_names_a_schema_that_does_not_exist_is_one_rejected_row(tmp_path: Path) -> None:
    table = make(tmp_path, JSON)
    register_follower(table.logical)
    log = log_of(table)
    appender = appender_for(log)
    for number, header in ((1, UNOWNED_HEADER), (2, encode_header(DATA, "", 0, "", schema=999)), (3, UNOWNED_HEADER)):
        value = pa.array([inserted(number)], pa.large_binary())
        appender.append(0, Records(pa.nulls(1, pa.large_binary()), value, header))
    appender.flush()
    list(table.follow(stop="latest"))
    (row,) = rejected(table, "reason", "schema_id")
    assert (
        ids(table) == [1, 3]
        and row["schema_id"] == 999
        and "names schema 999, which table db.t does not have" in str(row["reason"])
    )


def test_a_follower_commits_after_a_time_whatever_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed each minute behind much garbage, it would else never come to a commit."""
    table = make(tmp_path, JSON)
    register_follower(table.logical)
    append(table, 0, *(inserted(number) for number in range(3_000)))
    clock = iter(range(0, 1_000_000, 6))
    monkeypatch.setattr(materializer, "monotonic_s", lambda: float(next(clock)))
    made = list(table.follow(stop="latest"))
    assert len(made) > 1 and ids(table) == list(range(3_000))


@pytest.mark.parametrize("options", [LOG, FILES])
@pytest.mark.parametrize("numbers", [(1, 2, 3), (1, 3)])
def test_skipped_rows_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, numbers: tuple[int, ...]
) -> None:
    make(tmp_path, options, "id int, name string not null")
    counted: list[float] = []
    add = type(METER).add

    def noted(self: Any, metric: Any, value: float = 1, **labels: str) -> None:
        counted.extend([value] if metric is ROWS_REJECTED else [])
        add(self, metric, value, **labels)

    monkeypatch.setattr(type(METER), "add", noted)
    names = [None if number % 2 else "a" for number in numbers]
    with reopened(tmp_path, "set tblproperties ('on-bad-record' = 'skip')").writer() as writer:
        writer.write(pa.table({"id": pa.array(numbers, pa.int32()), "name": pa.array(names, pa.string())}))
    assert sum(counted) == 2


def test_a_writer_of_files_that_is_ended_is_not_registered(tmp_path: Path) -> None:
    table = make(tmp_path, LOG).logical
    files = table.with_hints({"emit.mode": "file"})
    task = TaskWriter(files, "query", 0, lane=0)
    task.write(given(1).to_batches()[0])
    Committer(files, "query").commit(0, [task.finish()])
    end_writer(table, "query")
    assert "query" not in table.registered.writers()


def test_inserted_records_are_read(tmp_path: Path) -> None:
    """The reader of hostile records reads plain ones, too."""
    table = make(tmp_path, JSON)
    register_follower(table.logical)
    append(table, 0, inserted(5))
    list(table.follow(stop="latest"))
    assert ids(table) == [5]
