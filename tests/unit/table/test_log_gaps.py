"""A log whose offsets have gaps: what reads up to an end comes to it, though the last record lies before it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.lake.table import Table
from lakelog.logstore.clients import appender_for
from lakelog.logstore.embedded.reader import EmbeddedReader
from lakelog.options.log import EMIT_MODE
from lakelog.table.log.committed_reader import CommittedReader
from lakelog.table.log.scan import LogScan
from log_tables import JSON, files, log_of, make, rows


def leave_a_gap(table: Table) -> None:
    log = log_of(table)
    database = appender_for(log)._database  # type: ignore[attr-defined]
    database.execute("update ends set next = next + 1000")


def test_a_tail_ends_after_a_gap(tmp_path: Path) -> None:
    table = make(tmp_path)
    leave_a_gap(table)
    table.write(rows(1, 2, 3))
    leave_a_gap(table)
    for start in ("earliest", "latest-full"):
        told = [row["id"] for batch in table.tail(start, stop="latest") for row in batch.to_pylist()]
        assert sorted(told) == [1, 2, 3]
    assert files(table, **{"read.mode": "union"}) == files(table) == [(n, "a") for n in (1, 2, 3)]


def test_a_follower_ends_after_a_gap(tmp_path: Path) -> None:
    table = make(tmp_path, f", '{EMIT_MODE.key}' = 'log'")
    leave_a_gap(table)
    assert list(table.follow(stop="latest")) == []
    table.write(rows(1, 2, 3))
    leave_a_gap(table)
    assert list(table.follow(stop="latest")) == []


def test_a_writer_continues_after_a_gap_and_retracts_its_open_rows(tmp_path: Path) -> None:
    table = make(tmp_path)
    first = table.writer()
    first.write(rows(1, 2))
    first.flush()
    leave_a_gap(table)
    table.write(rows(3))
    leave_a_gap(table)
    first.close()
    assert files(table) == [(3, "a")]
    assert files(table, **{"read.mode": "union"}) == [(3, "a")]


def test_records_before_a_gap_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, JSON)
    with table.writer() as writer:
        writer.write(rows(1, 2, 3))
        writer.flush()
        leave_a_gap(table)
    reader = LogScan(table.logical).reader
    ends, asked = reader.end_offsets(), []
    commits = {bucket: reader.read(bucket, end - 1, end) for bucket, end in ends.items()}
    plain = EmbeddedReader.read

    def read(self: EmbeddedReader, bucket: int, start: int, *rest: int) -> pa.Table:
        asked.append((bucket, start))
        return plain(self, bucket, start, *rest)

    monkeypatch.setattr(EmbeddedReader, "read", read)
    shown = [CommittedReader(reader, 100).shown(bucket, records) for bucket, records in commits.items()]
    assert sum(part.num_rows for parts in shown for part in parts) == 3
    assert sorted(asked) == sorted(set(asked)) and {(bucket, 0) for bucket in commits} <= set(asked)
