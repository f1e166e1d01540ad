"""A log that ALTER TABLE adds to a table, or removes, while others have it open (RFC 27)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from changelogs import added_up, newest
from lakelog.errors import (
    CommitConflict,
    InvalidOption,
    InvalidRequest,
    LakelogError,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.table.alter import alter_table
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import newest_state
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import files, rows

KEYS = ["", ", primary key (id)"]
SYSTEMS = ["embedded", "files"]
CONTENTS = ["input", "changes"]


def made(lake: Lake, key: str = "", options: str = "'write-only' = 'true'") -> Table:
    lake.sql(f"create table db.t (id int, name string{key}) tblproperties ({options})")
    return lake.table("db.t")


def with_log(lake: Lake, system: str = "files", content: str = "input") -> Table:
    lake.sql(
        f"alter table db.t set tblproperties ('log-store.enabled' = 'true', 'log-store.type' = '{system}', "
        f"'log.content' = '{content}')"
    )
    return lake.table("db.t")


def without_log(lake: Lake) -> Table:
    lake.sql("alter table db.t set tblproperties ('log-store.enabled' = 'false')")
    return lake.table("db.t")


def folded(table: Table, start: str = "latest-full", **options: str) -> list[tuple[int, str]]:
    """The rows of a reader at its end, by key or as a multiset."""
    tail = list(table.tail(start, stop="latest", options=options))
    if table.primary_keys:
        return sorted((number, row["name"]) for number, row in newest(tail).items())
    net = added_up(tail)
    assert not any(count < 0 for count in net.values()), net
    return sorted(net.elements())


def check_equal(table: Table) -> list[tuple[int, str]]:
    """Both stores have the same rows for every reader, once writers have come to rest; returns them."""
    table.seal()
    take_over_now(table.logical)
    found = files(table)
    for start in ({}, {"log.consistency": "transactional"}):
        assert folded(table, **start) == found
    assert files(table, **{"read.mode": "union"}) == found
    return found


def epoch(table: DynamicTable, writer: str, number: int, *ids: int, name: str = "s") -> Committer:
    """An epoch of a streaming writer, decided and not sealed."""
    task = TaskWriter(table, writer, number, 0)
    for batch in rows(*ids, name=name).to_batches():
        task.write(batch)
    committer = Committer(table, writer)
    committer.commit(number, [task.finish()])
    return committer


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("content", CONTENTS)
def test_a_log_begins_at_the_present_snapshot_and_has_all_later_rows(
    lake: Lake, key: str, system: str, content: str
) -> None:
    made(lake, key)
    lake.write(rows(1, 2, 3), "db.t")
    table = with_log(lake, system, content)
    assert folded(table) == files(table) == [(1, "a"), (2, "a"), (3, "a")]
    assert list(table.tail("earliest", stop="latest")) == []
    lake.write(rows(3, 4, name="b"), "db.t")
    assert check_equal(table) == (
        [(1, "a"), (2, "a"), (3, "b"), (4, "b")] if key else [(1, "a"), (2, "a"), (3, "a"), (3, "b"), (4, "b")]
    )
    later = [row["id"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert set(later) == {3, 4}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("content", CONTENTS)
def test_a_log_is_removed_and_added_again(lake: Lake, key: str, content: str) -> None:
    made(lake, key)
    for number in range(3):
        table = with_log(lake, content=content)
        lake.write(rows(number), "db.t")
        assert check_equal(table) == [(n, "a") for n in range(number)] + [(number, "a")]
        first = [r["id"] for b in table.tail("earliest", stop="latest") for r in b.to_pylist()]
        assert first == [number], "a log has nothing of the one before"
        plain = without_log(lake)
        assert plain.log is None
        assert not Path(table.log.address).exists()
        with pytest.raises(InvalidRequest, match="has no log"):
            plain.tail()
        assert files(plain) == [(n, "a") for n in range(number + 1)]


def test_the_statement_may_be_repeated_and_changes_other_options_too(lake: Lake) -> None:
    made(lake)
    lake.sql("alter table db.t set tblproperties ('log-store.enabled' = 'true', 'target-file-size' = '1 mb')")
    before = lake.table("db.t")
    assert before.options["target-file-size"] == "1 mb"
    assert before.log is not None
    lake.sql("alter table db.t set tblproperties ('log-store.enabled' = 'true')")
    assert lake.table("db.t").definition == before.definition
    lake.sql("alter table db.t unset tblproperties ('log-store.enabled')")
    assert lake.table("db.t").log is None


def test_a_log_that_cannot_be_is_refused_and_nothing_is_changed(lake: Lake) -> None:
    table = made(lake)
    for options, why in {
        "'log-store.topic' = 'x'": "'log-store.enabled' = 'true' in the same statement",
        "'log-store.enabled' = 'true', 'log-store.type' = 'kafka'": "'log-store.address' is required",
        "'log-store.enabled' = 'true', 'log-store.adopt' = 'true', 'log-store.topic' = 'x'": "rows are not in that",
        "'log-store.enabled' = 'true', 'log-store.type' = 'kaffka'": "kafka",
        "'lakelog.log-generation' = '7'": "reserved",
    }.items():
        with pytest.raises(InvalidOption, match=why):
            lake.sql(f"alter table db.t set tblproperties ({options})")
    assert lake.table("db.t").definition == table.definition
    with_log(lake)
    with pytest.raises(InvalidOption, match="Remove the log"):
        lake.sql("alter table db.t set tblproperties ('log-store.type' = 'embedded')")
    lake.sql("create table db.k (id int, primary key (id))")
    lake.sql("create materialized view db.v as select id from db.k")
    with pytest.raises(UnsupportedFeature, match="materialized view"):
        lake.sql("alter table db.v set tblproperties ('log-store.enabled' = 'false')")


@pytest.mark.parametrize("key", KEYS)
def test_a_writer_of_before_a_log_of_changes_goes_on_and_its_rows_are_in_the_log(lake: Lake, key: str) -> None:
    old = made(lake, key)
    with old.writer() as writer:
        writer.write(rows(1))
        table = with_log(lake, content="changes")
    assert check_equal(table) == [(1, "a")]
    assert [r["id"] for b in table.tail("earliest", stop="latest") for r in b.to_pylist()] == [1]


@pytest.mark.parametrize("key", KEYS)
def test_a_writer_of_before_a_log_of_rows_fails_with_what_to_do(lake: Lake, key: str) -> None:
    old = made(lake, key)
    lake.write(rows(1), "db.t")
    writer = old.writer()
    writer.write(rows(2))
    table = with_log(lake)
    with pytest.raises(CommitConflict, match="open the table again"):
        writer.commit()
    with pytest.raises(CommitConflict, match="open the table again"):
        old.truncate()
    with pytest.raises(CommitConflict, match="open the table again"), old.writer(overwrite=True) as other:
        other.write(rows(3))
    assert check_equal(table) == [(1, "a")]
    old.compact()
    old.expire_snapshots()
    assert check_equal(table) == [(1, "a")]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_writer_of_a_log_that_was_removed_fails_and_leaves_nothing(lake: Lake, key: str, system: str) -> None:
    made(lake, key)
    old = with_log(lake, system)
    lake.write(rows(1), "db.t")
    writer = old.writer()
    writer.write(rows(2))
    writer.flush()
    table = without_log(lake)
    with pytest.raises(CommitConflict, match="open the table again"):
        writer.commit()
    assert files(table) == [(1, "a")]
    lake.write(rows(3), "db.t")
    table = with_log(lake, system)
    lake.write(rows(4), "db.t")
    assert check_equal(table) == [(1, "a"), (3, "a"), (4, "a")]


def test_a_tail_of_a_log_that_was_removed_ends_with_an_error(lake: Lake) -> None:
    made(lake)
    table = with_log(lake)
    lake.write(rows(1), "db.t")
    tail = table.tail("earliest")
    assert next(iter(tail)).num_rows == 1
    without_log(lake)
    with pytest.raises(LakelogError, match="the log of table db.t was removed"):
        next(iter(tail))
    with pytest.raises(LakelogError, match="the log of table db.t was removed"):
        table.tail("latest")


@pytest.mark.parametrize("key", KEYS)
def test_epochs_of_streams_from_before_are_in_both_stores_and_the_next_one_fails(lake: Lake, key: str) -> None:
    old = made(lake, key).logical
    epoch(old, "query", 0, 1)
    late = epoch(old, "query", 1, 2)
    table = with_log(lake)
    assert check_equal(table) == [(1, "s"), (2, "s")]
    with pytest.raises(CommitConflict, match="restart the query"):
        epoch(old, "query", 2, 3)
        epoch(old, "query", 3, 4)  # without a key, a driver notices it after the first
    seal(late)
    new = table.logical
    found = files(table, **{"read.mode": "union"})
    number = 2 if key else 3
    seal(epoch(new, "query", number, 7))
    assert check_equal(table) == sorted([*found, (7, "s")])


def suspended(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Runs something between the last check of the next decision and the decision."""
    check, is_done = DynamicTable.check_identity, False

    def checked(table: DynamicTable, within_s: float = 0.0) -> None:
        nonlocal is_done
        check(table, within_s)
        if not is_done:
            is_done = True
            meanwhile()

    monkeypatch.setattr(DynamicTable, "check_identity", checked)


def test_a_stream_without_a_key_that_decides_late_reaches_the_log(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was suspended between the check and the decision: it is acknowledged, so no row may be lost."""
    old = made(lake).logical
    task = TaskWriter(old, "query", 0, 0)
    task.write(rows(1, 2).to_batches()[0])
    result = task.finish()

    def meanwhile() -> None:
        with_log(lake)
        lake.write(rows(5), "db.t")

    suspended(monkeypatch, meanwhile)
    committer = Committer(old, "query")
    assert committer.commit(0, [result]) is not None
    assert seal(committer) is not None
    table = lake.table("db.t")
    assert check_equal(table) == [(1, "a"), (2, "a"), (5, "a")]
    assert newest_state(table.logical.store)[1].missing == {}
    later = sorted(r["id"] for b in table.tail("earliest", stop="latest") for r in b.to_pylist())
    assert later == [1, 2, 5]


def test_a_stream_with_a_key_that_decides_late_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    old = made(lake, ", primary key (id)").logical
    task = TaskWriter(old, "query", 0, 0)
    task.write(rows(1, 2).to_batches()[0])
    result = task.finish()

    def meanwhile() -> None:
        with_log(lake)
        lake.write(rows(5), "db.t")

    suspended(monkeypatch, meanwhile)
    with pytest.raises(CommitConflict, match="restart the query"):
        Committer(old, "query").commit(0, [result])
    table = lake.table("db.t")
    seal(epoch(table.logical, "query", 0, 1, 2))
    assert check_equal(table) == [(1, "s"), (2, "s"), (5, "a")]


@pytest.mark.parametrize("key", KEYS)
def test_a_batch_that_decides_after_its_log_was_removed_is_in_the_files_or_refused(
    lake: Lake, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, key)
    old = with_log(lake)
    writer = old.writer()
    writer.write(rows(1))
    writer.flush()
    suspended(monkeypatch, lambda: without_log(lake))
    with pytest.raises(CommitConflict) if key else contextlib.nullcontext():
        writer.commit()
    table = lake.table("db.t")
    table.seal()
    assert files(table) == ([] if key else [(1, "a")])
    with_log(lake)
    lake.write(rows(2), "db.t")
    assert check_equal(lake.table("db.t")) == ([(2, "a")] if key else [(1, "a"), (2, "a")])


@pytest.mark.parametrize("key", KEYS)
def test_a_sealer_from_before_does_not_seal_what_it_cannot_heal(lake: Lake, key: str) -> None:
    old = made(lake, key).logical
    with_log(lake)
    table = lake.table("db.t")
    epoch(table.logical, "query", 0, 1)
    seal_staged(old)
    assert check_equal(table) == [(1, "s")]
    assert [r["id"] for b in table.tail("earliest", stop="latest") for r in b.to_pylist()] == [1]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("content", CONTENTS)
def test_readers_wait_for_the_snapshot_with_which_the_log_begins(
    lake: Lake, key: str, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = made(lake, key)
    lake.write(rows(1), "db.t")
    with monkeypatch.context() as died:
        died.setattr("lakelog.table.alter.settle_log", lambda table: None)
        table = with_log(lake, content=content)
    with pytest.raises(Unavailable, match="run it again"):
        table.tail("latest")
    with old.writer() as writer:  # before the log
        writer.write(rows(2))
    lake.sql("alter table db.t set tblproperties ('log-store.enabled' = 'true')")
    assert check_equal(lake.table("db.t")) == [(1, "a"), (2, "a")]


@pytest.mark.parametrize("key", KEYS)
def test_any_writer_ends_a_statement_that_died(lake: Lake, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made(lake, key)
    lake.write(rows(1), "db.t")
    with monkeypatch.context() as died:
        died.setattr("lakelog.table.alter.settle_log", lambda table: None)
        table = with_log(lake)
    lake.write(rows(2), "db.t")
    assert check_equal(table) == [(1, "a"), (2, "a")]
    with monkeypatch.context() as died:
        died.setattr("lakelog.table.alter.settle_log", lambda table: None)
        table = without_log(lake)
    with pytest.raises(Unavailable, match="run it again"):
        lake.write(rows(3), "db.t")
    lake.sql("alter table db.t set tblproperties ('log-store.enabled' = 'false')")
    lake.write(rows(3), "db.t")
    assert files(lake.table("db.t")) == [(1, "a"), (2, "a"), (3, "a")]


def test_a_log_with_rows_that_no_file_has_is_not_removed(lake: Lake) -> None:
    made(lake)
    table = with_log(lake)
    table.write(rows(1), options={"emit.mode": "log"})
    with pytest.raises(InvalidRequest, match="rows that no file has"):
        without_log(lake)
    assert files(lake.table("db.t"), **{"read.mode": "union"}) == [(1, "a")]


def test_deletes_and_overwrites_after_a_log_was_added_reach_it(lake: Lake) -> None:
    made(lake, ", primary key (id)")
    lake.write(rows(1, 2, 3), "db.t")
    table = with_log(lake)
    tail = table.tail("latest-full")
    lake.write(rows(2, kinds=["-D"]), "db.t")
    lake.write(rows(9), "db.t", overwrite=True)
    assert check_equal(table) == [(9, "a")]
    del tail


def test_a_branch_of_before_stays_writable(lake: Lake) -> None:
    made(lake)
    lake.write(rows(1), "db.t")
    lake.sql("call sys.create_tag(table => 'db.t', tag => 'v1')")
    lake.sql("call sys.create_branch(table => 'db.t', branch => 'dev', tag => 'v1')")
    with_log(lake)
    lake.write(rows(2), "db.t$branch_dev")
    assert files(lake.table("db.t$branch_dev")) == [(1, "a"), (2, "a")]
    assert check_equal(lake.table("db.t")) == [(1, "a")]


def test_a_rollback_to_before_the_log_is_in_the_log(lake: Lake) -> None:
    made(lake, ", primary key (id)")
    lake.write(rows(1), "db.t")
    table = with_log(lake)
    lake.write(rows(2), "db.t")
    lake.sql("call sys.rollback(table => 'db.t', version => '1')")
    assert check_equal(table) == [(1, "a")]


def test_alter_table_is_the_one_way(lake: Lake) -> None:
    """The catalog does the same for every caller: SQL, procedures and Python are ALTER TABLE."""
    table = made(lake)
    assert alter_table is not None
    lake.sql("call sys.add_log(table => 'db.t', options => 'log-store.type=files')")
    assert lake.table("db.t").log is not None
    lake.sql("call sys.remove_log(table => 'db.t')")
    assert lake.table("db.t").log is None
    assert table.add_log({"log-store.type": "files"}).log is not None
    assert lake.table("db.t").remove_log().log is None
