"""A range of the log as a batch: the changes as the log has them, or the rows that they add up to."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidOption, InvalidRequest, LakelogError, Unavailable
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake.table import Table
from lakelog.options.log import SCAN_DATA_FILES
from lakelog.options.option import Option
from lakelog.options.scan import FILE_SCAN_OPTIONS
from lakelog.service.optimizer.runner import RunContext, run_action
from lakelog.table.read import log_range
from log_tables import JSON, make, rows

BATCH = {"read.mode": "log", "streaming": "false"}
KINDS = {
    "upsert": ("", ", primary key (id)"),
    "upsert-json": (JSON, ", primary key (id)"),
    "all": (", 'log.changelog-mode' = 'all'", ", primary key (id)"),
    "changes": (", 'log.content' = 'changes'", ", primary key (id)"),
    "dynamic": (", 'log-store.partitions' = '2'", ", primary key (id)"),
    "keyless": ("", ""),
}


def changed(table: Table, seed: int, commits: int = 8) -> None:
    """Commits random rows and deletes; of a table without a key, rows come several times."""
    drawn = random.Random(seed)
    for _ in range(commits):
        number = [drawn.randrange(8) for _ in range(6)]
        table.write(rows(*number, name=drawn.choice("ab")))
        if drawn.random() < 0.5:
            if table.definition.is_keyed:
                one = drawn.randrange(8)
                table.write(rows(one, kinds=["-D"]))
            else:
                table.delete(f"id = {drawn.randrange(8)}")


def start_of(table: Table, share: float) -> dict[str, str]:
    """Options of a start after a share of the records."""
    scan = log_range.LogScan(table.logical)
    firsts, ends = scan.reader.first_offsets(), scan.reader.end_offsets()
    offsets = {b: firsts[b] + int((ends[b] - firsts[b]) * share) for b in ends}
    text = ";".join(f"partition:{b},offset:{offset}" for b, offset in offsets.items())
    return {**BATCH, "scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": text}


def text_of(row: dict) -> str:
    return json.dumps({name: value for name, value in row.items() if name != "_row_kind"}, sort_keys=True)


def added_up(changes: list[dict], is_keyed: bool) -> list[str]:
    """The rows that changes add up to, one by one."""
    if is_keyed:
        state: dict[int, str] = {}
        for row in changes:
            state.pop(row["id"], None)
            if row["_row_kind"] in ("+I", "+U"):
                state[row["id"]] = text_of(row)
        return sorted(state.values())
    left: Counter[str] = Counter()
    for row in changes:
        left[text_of(row)] = max(0, left[text_of(row)] + (1 if row["_row_kind"][0] == "+" else -1))
    return sorted(left.elements())


@pytest.mark.parametrize("buffer", [64 << 20, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_any_range_is_netted_to_what_its_changes_add_up_to(tmp_path: Path, monkeypatch, depth, kind, buffer) -> None:
    """With a buffer of one byte, each batch of rows is sorted on disk."""
    monkeypatch.setattr(log_range, "_MOST_BUFFER", buffer)
    more, key = KINDS[kind]
    table = make(tmp_path, more, key)
    for seed in depth.seeds(10):
        changed(table, seed)
        for share in (0, 0.3, 0.7, 1):
            options = start_of(table, share)
            changes = table.scan(options=options).to_arrow().to_pylist()
            want = added_up(changes, bool(key))
            netted = table.scan(columns=["id", "name"], options=options).to_arrow().to_pylist()
            assert sorted(map(text_of, netted)) == want
            names = table.scan(columns=["name"], options=options, filter="id < 4").to_arrow().column(0).to_pylist()
            assert sorted(names) == sorted(json.loads(row)["name"] for row in want if json.loads(row)["id"] < 4)
            assert table.scan(options=options).count() == len(want)
    everything = {**BATCH, "scan.startup.mode": "earliest"}
    tail = [row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    read = table.scan(options=everything).to_arrow().to_pylist()
    assert Counter(map(str, read)) == Counter(map(str, tail)), "the changes are those of the log"


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_start_the_range_begins_with_the_table(tmp_path: Path, kind) -> None:
    more, key = KINDS[kind]
    table = make(tmp_path, more, key)
    changed(table, 1)
    table.seal()
    now = table.scan().to_arrow().to_pylist()
    found = table.scan(columns=["id", "name"], options=BATCH).to_arrow().to_pylist()
    changes = table.scan(options=BATCH).to_arrow().to_pylist()
    assert sorted(map(text_of, found)) == sorted(map(text_of, now)) == added_up(changes, bool(key))
    assert table.scan(options={**BATCH, "scan.startup.mode": "latest"}).count() == 0


def test_rows_of_open_epochs_are_read_as_other_readers_read_them(tmp_path: Path) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        writer.write(rows(1))
        writer.commit()
        writer.write(rows(2))
        writer.flush()
        for start in ("earliest", "latest-full"):
            options = {**BATCH, "scan.startup.mode": start}
            assert table.scan(options=options).count() == 2
            assert table.scan(options={**options, "log.consistency": "transactional"}).count() == 1
        writer.abort()
    assert table.scan(options={**BATCH, "scan.startup.mode": "earliest"}).count() == 1, "they were taken back"


def test_only_inserts_are_not_netted(tmp_path: Path) -> None:
    table = make(tmp_path, ", 'log.changelog-mode' = 'all'")
    table.write(rows(1, 1, name="a", kinds=["+I", "-D"]))
    options = {**BATCH, "scan.startup.mode": "earliest", "log.consumer.changelog.modes": "append-only"}
    assert table.scan(columns=["id"], options=options).to_arrow().to_pylist() == [{"id": 1}]


def test_columns_of_every_kind_are_netted_without_a_key(tmp_path: Path) -> None:
    table = make(tmp_path, key="")
    lake_rows = pl.DataFrame({"id": [1, 1, 2], "name": [None, None, "x"]}, schema={"id": pl.Int32, "name": pl.String})
    table.write(lake_rows)
    table.delete("id = 1")
    options = {**BATCH, "scan.startup.mode": "earliest"}
    assert table.scan(columns=["name"], options=options).to_arrow() == pa.table({"name": ["x"]})


def test_what_has_no_range_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(1))
    with pytest.raises(InvalidRequest, match="has no snapshots"):
        table.scan(options={**BATCH, "scan.snapshot-id": "1"})
    with connect(warehouse=str(tmp_path / "other")) as lake:
        lake.sql("create table db.t (id int) using lakelog")
        with pytest.raises(InvalidRequest, match="has no log"):
            lake.table("db.t").scan(options=BATCH)


@pytest.mark.parametrize("option", [*FILE_SCAN_OPTIONS, SCAN_DATA_FILES], ids=lambda option: str(option.key))
def test_no_read_of_the_log_ignores_an_option_of_file_reads(tmp_path: Path, option: Option[Any]) -> None:
    table = make(tmp_path)
    hint = {option.key: option.choices[0] if option.choices else "true" if option.kind is bool else "1"}
    with pytest.raises(InvalidOption, match=f"'{option.key}' = '{hint[option.key]}' chooses files"):
        table.tail("earliest", options=hint)
    with pytest.raises(LakelogError):  # some choose changes of the files, or have no such snapshot
        table.scan(options={**BATCH, **hint}).to_arrow()


def test_a_deletion_that_was_taken_back_restores_no_row(tmp_path: Path, monkeypatch) -> None:
    """The log has two attempts of it, and then what takes the first one back."""
    table = make(tmp_path, ", 'log.writer-timeout' = '10 s', 'log-store.type' = 'files'", "")
    table.append(rows(1, 2))
    first = table.latest_snapshot()
    table.delete("id = 1")
    table.append(rows(3))
    create = LocalFileIO.create

    def fails_once(io: LocalFileIO, path: str, data: bytes) -> bool:
        if path.endswith("/changes"):
            monkeypatch.setattr(LocalFileIO, "create", create)
            raise Unavailable(f"create {path} failed")
        return create(io, path, data)

    monkeypatch.setattr(LocalFileIO, "create", fails_once)
    table.rollback_to(first.id)
    for lease in tmp_path.rglob("lease"):
        os.utime(lease, (0, 0))
    for need in table.health().needs:
        run_action(table.logical, need.kind, RunContext(lambda: False))
    kinds = [row["_row_kind"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert len(kinds) > 6, "the failed attempt and what takes it back are in the log"
    netted = table.scan(columns=["id"], options={**BATCH, "scan.startup.mode": "earliest"}).to_arrow()
    assert sorted(netted["id"].to_pylist()) == sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())
