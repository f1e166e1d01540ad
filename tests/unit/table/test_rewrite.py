"""Data files that are replaced by what is left of their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import CommitConflict, InvalidRequest, UnsupportedFeature
from lakelog.filestore.commit.request import CommitRequest, IndexChange
from lakelog.filestore.read.deletion_vectors import write_vectors
from lakelog.io.names import new_uuid
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.row_counts import row_counts
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.dml_support import changeable
from lakelog.table.write.replace_files import commit_rewrite, files_to_rewrite


def make(tmp_path, more: str = "", key: str = ""):
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(f"create table db.t (id int, v string{key}) using lakelog tblproperties ('write-only' = 'true'{more})")
    table = lake.table("db.t")
    for start in (0, 10, 20):
        table.write(pa.table({"id": pa.array(range(start, start + 10), pa.int32()), "v": ["a"] * 10}))
    return table


def written(table: DynamicTable, ids: range):
    task = TaskWriter(table, new_uuid(), 0, 0, replaces=True)
    task.write(pa.record_batch({"id": pa.array(ids, pa.int32()), "v": ["b"] * len(ids)}))
    return task.finish()


def content(table) -> list[tuple[int, str]]:
    return sorted((r["id"], r["v"]) for r in table.scan().to_arrow().to_pylist())


def test_files_with_such_rows_are_replaced_and_no_others(tmp_path) -> None:
    table = make(tmp_path)
    handle = table.logical
    names = files_to_rewrite(handle, parse_filter("id >= 12 and id < 15", handle.schema))
    assert len(names) == 1
    commit_rewrite(handle, new_uuid(), [written(handle, range(10, 15))], names)
    snapshot = handle.store.latest_snapshot()
    assert snapshot is not None and snapshot.commit_kind == "OVERWRITE" and snapshot.delta_record_count == -5
    assert content(table) == [(i, "b" if 10 <= i < 15 else "a") for i in range(30) if not 15 <= i < 20]
    assert commit_rewrite(handle, new_uuid(), [], []) == row_counts()
    assert handle.store.latest_snapshot() == snapshot


def test_a_compaction_that_was_faster_is_a_conflict_that_changes_nothing(tmp_path) -> None:
    table = make(tmp_path)
    handle = table.logical
    names = files_to_rewrite(handle)
    rows = written(handle, range(5))
    table.compact(full=True)
    before = table.latest_snapshot()
    with pytest.raises(CommitConflict, match="was replaced by another commit"):
        commit_rewrite(handle, new_uuid(), [rows], names)
    with pytest.raises(CommitConflict, match="part of table db.t"):
        Scan(handle.with_hints({"scan.data-files": ",".join(names)})).plan()
    assert table.latest_snapshot() == before


def test_vectors_of_replaced_files_go_and_those_of_others_stay(tmp_path) -> None:
    table = make(tmp_path, ", 'deletion-vectors.enabled' = 'true'")
    store = table.logical.store
    entries = {e.file.file_name: e for e in store.live_entries(store.latest_snapshot())}
    first, second, _ = (scan_of_ids(table, low) for low in (0, 10, 20))
    place = entries[first].partition, entries[first].bucket
    vectors = write_vectors(store.io, store.paths, *place, {first: np.array([0, 1]), second: np.array([9])})
    store.commit(CommitRequest(new_uuid(), 0, "OVERWRITE", index=IndexChange((vectors,)), allow_empty=True))
    assert [i for i, _ in content(table)] == [i for i in range(30) if i not in (0, 1, 19)]
    rest = Scan(table.logical.with_hints({"scan.data-files": first})).to_arrow()
    assert rest.num_rows == 8
    commit_rewrite(table.logical, new_uuid(), [written(table.logical, range(2, 10))], [first])
    assert content(table) == [(i, "b" if i < 10 else "a") for i in range(2, 30) if i != 19]
    named = [r.data_file for e in store.vector_files(store.latest_snapshot())[place] for r in e.deletion_vectors]
    assert named == [second]
    assert Scan(table.logical.with_hints({"scan.data-files": ""})).to_arrow().num_rows == 0


def scan_of_ids(table, low: int) -> str:
    (name,) = files_to_rewrite(table.logical, parse_filter(f"id = {low}", table.logical.schema))
    return name


def test_tables_that_cannot_be_rewritten(tmp_path) -> None:
    keyed = make(tmp_path / "keyed", ", 'log-store.enabled' = 'true'", ", primary key (id)").logical
    with pytest.raises(UnsupportedFeature, match="has a primary key"):
        files_to_rewrite(keyed)
    with pytest.raises(InvalidRequest, match=r"'scan\.data-files' .* table db\.t"):
        Scan(keyed.with_hints({"scan.data-files": "x"})).plan()
    assert changeable(keyed, ("UPDATE", "DELETE")).emits_log
    logged = make(tmp_path / "logged", ", 'log-store.enabled' = 'true'").logical
    with pytest.raises(UnsupportedFeature, match=r"'emit\.mode' = 'log'"):
        files_to_rewrite(logged.with_hints({"emit.mode": "log"}))
    assert files_to_rewrite(logged) == files_to_rewrite(logged.with_hints({"emit.mode": "file"}))


@pytest.mark.parametrize(
    ("options", "action", "said"),
    [
        ("'merge-engine' = 'first-row'", "UPDATE", "merge engine 'first-row' merges a "),
        ("'merge-engine' = 'first-row'", "DELETE", "'first-row' removes no keys$"),
        ("'merge-engine' = 'partial-update'", "DELETE", "unless .*'partial-update.remove-record-on-delete'"),
        ("'ignore-delete' = 'true'", "DELETE", "'ignore-delete' = 'true' drops deletes"),
        ("'rowkind.field' = 'v'", "UPDATE", "its column 'v' "),
    ],
)
def test_tables_that_do_not_support_the_change(tmp_path, options, action, said) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(f"create table db.t (id int, v string, primary key (id)) using lakelog tblproperties ({options})")
    with pytest.raises(UnsupportedFeature, match=said):
        changeable(lake.table("db.t").logical, (action,))
    changeable(lake.table("db.t").logical, () if "rowkind" in options else ("INSERT",))
