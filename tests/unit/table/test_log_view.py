"""``$log`` and ``lakelog log``: offsets, lag, writers with their open epochs, named readers."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lakelog import connect
from lakelog.cli.tables import log
from lakelog.errors import InvalidRequest
from lakelog.table.log.register import NamedReaders
from limits import unsealed
from log_tables import make, rows


def view(table_name: str, tmp_path) -> list[dict]:
    found = connect(warehouse=str(tmp_path / "warehouse")).table(f"{table_name}$log").scan().to_arrow().to_pylist()
    return [{k: v for k, v in row.items() if v is not None} for row in found]


def test_buckets_writers_and_readers(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    empty = view("db.t", tmp_path)
    assert empty == [
        {"kind": "bucket", "bucket": b, "first_offset": 0, "end_offset": 0, "position": 0, "lag": 0} for b in (0, 1)
    ]
    table.write(rows(1, 2, 3, 4))
    known = {r["bucket"]: r for r in view("db.t", tmp_path)}
    assert all(r["position"] > 0 and r["lag"] == 0 for r in known.values())
    writer = table.writer()
    writer.write(rows(5, 6, 7, 8))
    writer.flush()
    monkeypatch.setattr("lakelog.table.system.activity.now_ms", lambda: 10**15)
    NamedReaders(table.logical.io, table.path).record("mirror", {0: 1, 1: 2})
    found = view("db.t", tmp_path)
    (at_work,) = [r for r in found if r["kind"] == "writer"]
    assert (at_work["decided_epoch"], at_work["sealed_epoch"]) == (-1, -1)
    assert at_work["open_age_ms"] > 10**14
    buckets, readers = ([r for r in found if r["kind"] == k] for k in ("bucket", "reader"))
    assert sum(r["lag"] for r in readers) == sum(b.num_rows for b in table.tail({0: 1, 1: 2}, stop="latest")) > 4
    assert sum(b["lag"] for b in buckets) == 4
    assert {r["name"] for r in readers} == {"mirror"}
    writer.commit()
    (at_work,) = [r for r in view("db.t", tmp_path) if r["kind"] == "writer"]
    assert at_work["sealed_epoch"] == 0 and "open_age_ms" not in at_work
    writer.close()
    assert not [r for r in view("db.t", tmp_path) if r["kind"] == "writer"]


def test_an_epoch_that_waits_for_its_snapshot_is_open(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    writer = table.writer()
    writer.write(rows(1))
    unsealed(monkeypatch)
    writer.commit()
    (at_work,) = [r for r in view("db.t", tmp_path) if r["kind"] == "writer"]
    assert (at_work["decided_epoch"], at_work["sealed_epoch"]) == (0, -1)
    assert at_work["open_age_ms"] >= 0
    assert sum(r["lag"] for r in view("db.t", tmp_path) if r["kind"] == "bucket") == 1


def test_the_command_prints_each_kind_with_its_own_columns(tmp_path) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        writer.write(rows(1, 2, 3))
        writer.flush()
        arguments = ["db.t", "--warehouse", str(tmp_path / "warehouse"), "--format"]
        lines = CliRunner().invoke(log, [*arguments, "jsonl"]).output.splitlines()
        text = CliRunner().invoke(log, [*arguments, "table"]).output
    found = [json.loads(line) for line in lines]
    assert [r["kind"] for r in found] == ["bucket", "bucket", "writer"]
    assert "lag" in found[0] and "lag" not in found[2] and found[2]["open_age_ms"] >= 0
    assert "first_offset" in text and "sealed_epoch" in text


def test_a_table_without_a_log_has_nothing_to_show(tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.plain (id int) using lakelog")
    assert view("db.plain", tmp_path) == []
    with pytest.raises(InvalidRequest, match="db.plain has no log"):
        log.main(["db.plain", "--warehouse", str(tmp_path / "warehouse")], standalone_mode=False)
