"""Attacks on tables with a log whose buckets change or are dynamic (RFC 18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bucket_tables import DYNAMIC, IDS, change_buckets, check, lake_of, make
from lakelog.errors import InvalidOption
from lakelog.table.commit import file_commit
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.partitions import log_partition_of_rows
from lakelog.table.log.register import register_writer
from lakelog.table.runs import runs as run_files
from lakelog.table.staging.task_writer import TaskWriter
from limits import limit
from log_tables import files, folded, rows, write


def decide(table: Any, number: int, *ids: int, name: str) -> Committer:
    register_writer(table.logical, "w")
    committer = Committer(table.logical, "w")
    task = TaskWriter(table.logical, "w", number, 0)
    task.write(rows(*ids, name=name).to_batches()[0])
    committer.commit(number, [task.finish()])
    return committer


@pytest.mark.parametrize("large", [False, True])
def test_buckets_change_before_the_first_seal(tmp_path: Path, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        limit(monkeypatch, inline_bytes=0)
    table = make(tmp_path, "'bucket' = '4'")
    committer = decide(table, 0, 1, 2, 3, name="a")
    new = change_buckets(table, 1)
    wanted = {1: "a", 2: "a", 3: "a"}
    assert files(new) == files(new, **{"read.mode": "union"}) == sorted(wanted.items())
    write(new, 2, 4, name="b")
    seal(committer)
    write(table, 3, 5, name="c")
    wanted |= {2: "b", 4: "b", 3: "c", 5: "c"}
    check(new, wanted)
    write(lake_of(new).table("db.t"), *IDS, name="d")
    check(new, dict.fromkeys(IDS, "d"))


@pytest.mark.parametrize(
    ("kind", "number"), [("'bucket' = '2'", -1), ("'bucket' = '1'", -1), ("'bucket' = '1'", None), (DYNAMIC, 4)]
)
def test_fixed_buckets_never_become_dynamic_because_decided_rows_are_in_them(
    tmp_path: Path, kind: str, number: int | None
) -> None:
    table = make(tmp_path, kind)
    committer = decide(table, 0, 1, 2, 3, name="a")
    change = "unset tblproperties ('bucket')" if number is None else f"set tblproperties ('bucket' = '{number}')"
    with pytest.raises(InvalidOption, match="'bucket' cannot be"):
        lake_of(table).sql(f"alter table db.t {change}")
    seal(committer)
    check(table, dict.fromkeys((1, 2, 3), "a"))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", ["'bucket' = '2'", "'bucket' = '2', 'log-store.partitions' = '3'", DYNAMIC])
def test_another_seals_large_runs_meanwhile(
    tmp_path: Path, kind: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, inline_bytes=0)
    table = make(tmp_path, kind)
    committer = decide(table, 0, *IDS, name="a")
    made, others = file_commit.level0_files_of, [True]

    def slow(*args: Any) -> Any:
        races = bool(others)
        others.clear()
        found = made(*args) if after or not races else None
        if races:
            lake_of(table).table("db.t").seal()
        return found or made(*args)

    monkeypatch.setattr(file_commit, "level0_files_of", slow)
    seal(committer)
    check(table, dict.fromkeys(IDS, "a"))


@pytest.mark.parametrize("kind", [*(f"'bucket' = '{n}', 'log-store.partitions' = '2'" for n in (1, 3)), DYNAMIC])
def test_orders_of_log_partitions_far_apart(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, inline_bytes=0)
    monkeypatch.setattr(run_files, "_OWN_BITS", 0)
    table = make(tmp_path, kind, ", 'write-buffer-size' = '1 b'")  # each write of a task is a file of its own
    of = dict(zip(IDS, log_partition_of_rows(rows(*IDS), table.logical.schema).tolist(), strict=True))
    low, high = ([i for i in IDS if (of[i] == 0) == first] for first in (True, False))
    for number in range(6):
        write(table, *high, name=f"h{number}")
    table.seal()
    write(table, *low, name="l")
    register_writer(table.logical, "w")
    committer = Committer(table.logical, "w")
    task = TaskWriter(table.logical, "w", 0, 0)
    task.write(rows(*high, name="new").to_batches()[0])
    task.write(rows(*low, name="new").to_batches()[0])
    task.write(rows(*low[:3], name="newer").to_batches()[0])
    committer.commit(0, [task.finish()])
    check(table, dict.fromkeys(IDS, "new") | dict.fromkeys(low[:3], "newer"))
    table.compact()
    check(table, dict.fromkeys(IDS, "new") | dict.fromkeys(low[:3], "newer"))


def test_partition_made_by_two_schemas_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make(tmp_path, "'bucket' = '2', 'bucket-key' = 'id'", key="")
    committer = decide(old, 0, *IDS, name="a")
    new = change_buckets(old, 5)
    made, others = file_commit.level0_files_of, [True]

    def slow(*args: Any) -> Any:
        found = made(*args)
        if others:
            others.pop()
            write(new, *IDS, name="b")
            new.seal()
        return found

    monkeypatch.setattr(file_commit, "level0_files_of", slow)
    seal(committer)
    new = lake_of(new).table("db.t")
    wanted = sorted([(i, n) for i in IDS for n in "ab"])
    assert files(new) == wanted == files(new, **{"read.mode": "union"})
    totals = {e.total_buckets for e in new.logical.store.live_entries(new.latest_snapshot())}
    assert len(totals) == 1
    new.rescale()
    assert files(new) == wanted


def test_fast_forward_and_rollback_of_dynamic_buckets_with_a_log_of_changes(tmp_path: Path) -> None:
    table = make(tmp_path, DYNAMIC, ", 'log.content' = 'changes'")
    write(table, *IDS, name="a")
    lake = lake_of(table)
    lake.sql("call sys.create_tag('db.t', 'x', 1)")
    write(table, *IDS[::-1], 77, 78, name="b")
    assert folded(table) == files(table)
    lake.sql("call sys.rollback('db.t', '1')")
    table = lake_of(table).table("db.t")
    assert folded(table) == files(table) == [(i, "a") for i in IDS]
    write(table, 78, 79, 80, 77, name="c")
    assert folded(table) == files(table)


def test_a_copy_of_the_definition_may_have_no_log(tmp_path: Path) -> None:
    lake = lake_of(change_buckets(make(tmp_path, "'bucket' = '2'"), 8))
    lake.sql("create table db.with_log like db.t")
    lake.sql("create table db.without like db.t tblproperties ('log-store.enabled' = 'false')")
    assert lake.table("db.with_log").options["log-store.partitions"] == "2"
    for name in ("db.with_log", "db.without"):
        write(lake.table(name), *IDS, name="a")
        assert files(lake.table(name)) == [(i, "a") for i in IDS]
