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
from log_tables import make, rows

SKIP = {"scan.on-bad-record": "skip"}
ALL = [1, 2, 3, 4, 5, 6, 7, 8]


def spoiled(tmp_path: Path, form: str = "debezium-json") -> tuple[Table, int]:
    """A table with rows before and behind a record that some producer has made wrong; its offset in bucket 1."""
    table = make(tmp_path, f", 'log-store.data-format' = '{form}'")
    register_follower(table.logical)
    with table.writer() as writer:
        writer.write(rows(1, 2, 3, 4))
    log = table.logical.log
    assert log is not None
    value = b'{"before":null,"after":{"id":"x","name":7},"op":"c"}'
    records = Records(pa.array([None], pa.large_binary()), pa.array([value], pa.large_binary()), UNOWNED_HEADER)
    appended = appender_for(log).append(1, records)
    with table.writer() as writer:
        writer.write(rows(5, 6, 7, 8))
    return table, appended.offsets()[0].as_py()


def ids(table: Table, mode: str, **options: str) -> list[int]:
    if mode == "union":
        return sorted(table.scan(options={"read.mode": "union", **options}).to_arrow().column("id").to_pylist())
    tail = table.tail("earliest", stop="latest", options=options)
    return sorted(i for batch in tail for i in batch.column("id").to_pylist())


@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
@pytest.mark.parametrize("mode", ["tail", "union"])
def test_a_record_that_cannot_be_read_is_named_or_skipped(tmp_path, form, mode) -> None:
    table, offset = spoiled(tmp_path, form)
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
