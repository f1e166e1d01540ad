from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Corrupt
from lakelog.io.metrics import METER
from lakelog.lake.table import Table
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.table.log.register import register_follower
from log_tables import log_of, make, rows

SKIP = {"scan.on-bad-record": "skip"}
ALL = [1, 2, 3, 4, 5, 6, 7, 8]


def spoiled(tmp_path: Path, form: str = "debezium-json", header: bytes = UNOWNED_HEADER) -> tuple[Table, int]:
    """A table with rows before and behind a record that some producer has made wrong; its offset in bucket 1."""
    table = make(tmp_path, f", 'log-store.data-format' = '{form}'")
    register_follower(table.logical)
    table.write(rows(1, 2, 3, 4))
    log = log_of(table)
    value = b'{"before":null,"after":{"id":"x","name":7},"op":"c"}'
    records = Records(pa.array([None], pa.large_binary()), pa.array([value], pa.large_binary()), header)
    appended = appender_for(log).append(1, records)
    table.write(rows(5, 6, 7, 8))
    return table, appended.offsets()[0].as_py()


def ids(table: Table, mode: str, **options: str) -> list[int]:
    if mode == "union":
        return sorted(table.scan(options={"read.mode": "union", **options}).to_arrow().column("id").to_pylist())
    tail = table.tail("earliest", stop="latest", options=options)
    return sorted(i for batch in tail for i in batch.column("id").to_pylist())


@pytest.mark.parametrize(
    ("form", "header"),
    [("debezium-json", UNOWNED_HEADER), ("arrow", UNOWNED_HEADER), ("arrow", b"hello"), ("arrow", b"1|d|w|x|a")],
)
@pytest.mark.parametrize("mode", ["tail", "union"])
def test_a_record_that_cannot_be_read_is_named_or_skipped(tmp_path, form, header, mode) -> None:
    table, offset = spoiled(tmp_path, form, header)
    with pytest.raises(Corrupt, match=rf"offset {offset} of bucket 1 .*db\.t \(topic '.+'.*scan\.on-bad-record"):
        ids(table, mode)
    METER.reset()
    assert ids(table, mode, **SKIP) == ALL
    assert [s.value for s in METER.samples() if s.metric.name == "bad_records"] == [1]
    waits = [wait for wait in table.health().waits if f"1-{offset}" in wait.why]
    assert len(waits) == 1 and "'skip'" in waits[0].what_to_do


def test_a_follower_goes_on_when_the_table_says_so(tmp_path) -> None:
    table, offset = spoiled(tmp_path)
    with pytest.raises(Corrupt, match=f"offset {offset} of bucket 1"):
        list(table.follow(stop="latest"))
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("alter table db.t set tblproperties ('scan.on-bad-record' = 'skip')")
    list(lake.table("db.t").follow(stop="latest"))
    assert ids(lake.table("db.t"), "tail") == ALL


def _arrow_bomb() -> bytes:
    batch = pa.record_batch({"id": pa.nulls(200_000, pa.int32()), "_row_kind": pa.array([0] * 200_000, pa.int8())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


BOMBS = {
    "arrow": _arrow_bomb,
    "debezium-json": lambda: b'{"before":null,"after":{"id":1,"d":"0.' + b"0" * 5_000_000 + b'1"},"op":"c"}',
    "json with escaped digits": lambda: (
        b'{"before":null,"after":{"id":1,"d":"0.' + b"\\u0030" * 900_000 + b'1"},"op":"c"}'
    ),
    "deep json": lambda: b'{"before":null,"after":{"id":1,"d":' + b"[" * 100_000 + b"]" * 100_000 + b'},"op":"c"}',
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("mode", ["tail", "union"])
@pytest.mark.parametrize("system", ["embedded", "files"])
def test_a_record_that_would_take_all_memory_is_named_or_skipped(tmp_path, name, mode, system) -> None:
    form = "arrow" if name == "arrow" else "debezium-json"
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(f"create table db.t (id int, name string, d decimal(30, 5), primary key (id)) using lakelog tblproperties "
             f"('log-store.enabled' = 'true', 'log-store.type' = '{system}', 'bucket' = '2', "
             f"'log-store.data-format' = '{form}')")  # fmt: skip
    table = lake.table("db.t")
    register_follower(table.logical)
    log = log_of(table)
    value = pa.array([BOMBS[name]()], pa.large_binary())
    appender = appender_for(log)
    appender.append(1, Records(pa.nulls(1, pa.large_binary()), value, UNOWNED_HEADER))
    appender.flush()
    table.write(rows(*ALL).append_column("d", pa.nulls(8, pa.decimal128(30, 5))))
    with pytest.raises(Corrupt, match=r"offset 0 of bucket 1 .*db\.t \(topic '.+'.*scan\.on-bad-record"):
        ids(table, mode)
    assert ids(table, mode, **SKIP) == ALL
