"""A rollback or fast-forward is a new snapshot with the content of an older state: it removes nothing (RFC 23)."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import changelogs
from lakelog import connect
from lakelog.errors import InvalidRequest, NotFound
from lakelog.filestore.commit.commit import TableCommit
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake.table import Table
from lakelog.paimon.schema.changes import AddColumn, DropColumn
from lakelog.paimon.types.types import parse_type

LOG = "'log-store.enabled' = 'true'"
KEYED = {
    "plain": "",
    "vectors": "'deletion-vectors.enabled' = 'true'",
    "changelog": "'changelog-producer' = 'lookup'",
    "log": LOG,
    "log and vectors": f"{LOG}, 'deletion-vectors.enabled' = 'true'",
    "log of changes": f"{LOG}, 'log.content' = 'changes'",
    "log in files": f"{LOG}, 'log-store.type' = 'files'",
    "dynamic buckets": f"{LOG}, 'bucket' = '-1'",
    "sums": "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'max'",
}
TABLES = {f"key, {name}": (True, options) for name, options in KEYED.items()} | {
    f"no key, {name}": (False, KEYED[name])
    for name in ("plain", "vectors", "log", "log and vectors", "log of changes", "log in files")
}


def make(place: Path, keyed: bool, options: str) -> Table:
    lake = connect(str(place / "w"))
    lake.sql("create database db")
    if "'bucket'" not in options:
        options = ", ".join(filter(None, [options, "'bucket' = '2'", "" if keyed else "'bucket-key' = 'id'"]))
    key = ", primary key (id)" if keyed else ""
    lake.sql(f"create table db.t (id int, v string{key}) tblproperties ({options})")
    return lake.table("db.t")


def write(table: Table, *ids: int, v: str = "a") -> None:
    table.write(pa.table({"id": pa.array(ids, pa.int32()), "v": [v] * len(ids)}))


def rows(table: Table, **scan: Any) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.scan(**scan).to_arrow().to_pylist())


def folded(table: Table) -> Counter[tuple[object, ...]]:
    """The log read from its beginning; a key has its newest row."""
    tail = table.tail("earliest", stop="latest")
    return (
        Counter(tuple(row.values()) for row in changelogs.newest(tail).values())
        if table.primary_keys
        else +changelogs.added_up(tail)
    )


def newest(table: Table) -> int:
    found = table.latest_snapshot()
    assert found is not None
    return found.id


@pytest.mark.parametrize("name", TABLES)
def test_a_rollback_has_the_rows_of_its_snapshot_in_both_stores_and_removes_nothing(tmp_path: Path, name: str) -> None:
    keyed, options = TABLES[name]
    table = make(tmp_path, keyed, options)
    seen: dict[int, Counter[tuple[object, ...]]] = {}

    def note() -> None:
        seen[newest(table)] = rows(table)

    write(table, 1, 2, 3)
    note()
    write(table, 2, 4, v="b")
    note()
    table.create_tag("second")
    table.compact(full=True)
    note()
    table.delete("id = 1") if "merge-engine" not in options else write(table, 1, v="c")
    note()
    write(table, 7)
    table.compact(full=True)
    note()
    for target, wanted in list(seen.items()):
        assert table.rollback_to(snapshot_id=target).id == target
        note()
        assert rows(table) == wanted
        if LOG in options:
            assert folded(table) == wanted
            assert rows(table, options={"read.mode": "union"}) == wanted
        for snapshot, had in seen.items():
            assert rows(table, snapshot_id=snapshot) == had
    table.create_branch("b", tag="second")
    table.fast_forward("b")
    assert rows(table) == rows(table, tag="second")
    table.rollback_to(tag="second")
    write(table, 9)
    table.compact(full=True)
    wanted = rows(table)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    table.delete_tag("second")
    table.delete_branch("b")
    assert rows(table) == wanted
    assert table.remove_orphan_files(older_than="0 s").files == ()
    assert table.health().score == 100


@pytest.mark.parametrize("statement", ["roll back", "fast-forward"])
def test_a_writer_beside_it_loses_nothing_and_the_table_stays_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """The writer commits while the other one is about to commit what it has read before."""
    table = make(tmp_path, False, "")
    write(table, 1)
    write(table, 2)
    table.create_branch("b", snapshot_id=1)
    create, writes = TableCommit._create, [True]

    def late(commit: TableCommit, *given: Any) -> bool:
        if given[0].commit_kind == "OVERWRITE" and writes:
            writes.pop()
            thread = threading.Thread(target=write, args=(table, 3))
            thread.start()
            thread.join()
        return create(commit, *given)

    monkeypatch.setattr(TableCommit, "_create", late)
    table.rollback_to(1) if statement == "roll back" else table.fast_forward("b")
    assert (newest(table), rows(table)) == (4, Counter({(1, "a"): 1}))
    assert rows(table, snapshot_id=3) == Counter({(1, "a"): 1, (2, "a"): 1, (3, "a"): 1})
    write(table, 4)
    assert rows(table) == Counter({(1, "a"): 1, (4, "a"): 1})


def test_a_compaction_beside_it_makes_it_copy_what_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, True, "'write-only' = 'true'")
    for number in (1, 2, 3):
        write(table, number)
    create, compacts = TableCommit._create, [True]

    def late(commit: TableCommit, *given: Any) -> bool:
        if given[0].commit_kind == "OVERWRITE" and compacts:
            compacts.pop()
            table.compact(full=True)
        return create(commit, *given)

    monkeypatch.setattr(TableCommit, "_create", late)
    table.rollback_to(2)
    assert rows(table) == Counter({(1, "a"): 1, (2, "a"): 1})


def test_files_are_added_once_because_other_engines_expire_them_by_their_deletion(tmp_path: Path) -> None:
    table = make(tmp_path, True, "'deletion-vectors.enabled' = 'true'")
    write(table, 1, 2)
    write(table, 2, v="b")
    table.delete("id = 1")
    table.compact(full=True)
    for target in (1, 3, 2, 1):
        table.rollback_to(target)
    added = Counter(
        entry.file.file_name
        for snapshot in table.logical.store.snapshots.backwards()
        for entry in table.logical.store.manifests.delta(snapshot)
        if entry.kind == 0
    )
    assert max(added.values()) == 1 or all(
        entry.file.level for name, count in added.items() if count > 1 for entry in _entries(table, name)[1:]
    )


def _entries(table: Table, name: str) -> list[Any]:
    """The additions of one file, oldest first; a file that moves to another level is added again."""
    store = table.logical.store
    deltas = (store.manifests.delta(snapshot) for snapshot in reversed(list(store.snapshots.backwards())))
    return [entry for delta in deltas for entry in delta if entry.file.file_name == name and entry.kind == 0]


def test_the_schema_stays_and_old_rows_are_read_with_it(tmp_path: Path) -> None:
    table = make(tmp_path, True, LOG)
    write(table, 1)
    table.alter(AddColumn(("more",), parse_type("INT")), DropColumn(("v",)))
    table = connect(str(tmp_path / "w")).table("db.t")
    table.write(pa.table({"id": pa.array([2], pa.int32()), "more": pa.array([2], pa.int32())}))
    table.rollback_to(1)
    assert rows(table) == Counter({(1, None): 1}) == folded(table)


def test_it_stops_before_anything_if_there_is_no_such_state_or_the_log_cannot_follow(tmp_path: Path) -> None:
    table = make(tmp_path, True, f"{LOG}, 'ignore-delete' = 'true'")
    write(table, 1)
    write(table, 2)
    table.create_branch("b", snapshot_id=1)
    for call in (lambda: table.rollback_to(1), lambda: table.fast_forward("b")):
        with pytest.raises(InvalidRequest, match="Pass files_only"):
            call()
    for missing in ({"snapshot_id": 9}, {"tag": "none"}, {"timestamp_ms": 1}):
        with pytest.raises(NotFound):
            table.rollback_to(**missing, files_only=True)
    assert newest(table) == 2
    assert not table.health().findings
    assert table.rollback_to(1, files_only=True).id == 1
    assert [one.kind for one in table.health().findings] == ["log-ahead"]
    assert rows(table) == Counter({(1, "a"): 1})


def test_a_death_leaves_no_copy_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, True, "")
    write(table, 1)
    write(table, 1, v="b")
    table.compact(full=True)

    def full(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as dies:
        dies.setattr(LocalFileIO, "create", full)
        with pytest.raises(KeyboardInterrupt):
            table.rollback_to(1)
    assert rows(table) == Counter({(1, "b"): 1})
    assert len(table.remove_orphan_files(older_than="0 s").files) > 0
    table.rollback_to(1)
    assert rows(table) == Counter({(1, "a"): 1})
