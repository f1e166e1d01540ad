"""Statements that replace files, or change rows by a condition, beside rows that no compaction has merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from changelogs import newest
from lakelog import connect
from lakelog.errors import CommitConflict
from lakelog.filestore.commit.commit import TableCommit
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table

LOG = "'log-store.enabled' = 'true'"
VECTORS = "'deletion-vectors.enabled' = 'true'"
TABLES = {
    "plain": "",
    "vectors": VECTORS,
    "vectors, log": f"{VECTORS}, {LOG}",
    "vectors, log of changes": f"{VECTORS}, {LOG}, 'log.content' = 'changes'",
    "first row": "'merge-engine' = 'first-row'",
    "first row, log": f"'merge-engine' = 'first-row', {LOG}",
    "sums": "'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum'",
    "lookup": "'changelog-producer' = 'lookup'",
}
CHANGEABLE = [name for name in TABLES if "first" not in name and name != "sums"]


def make(place: Path, options: str) -> Lake:
    lake = connect(str(place / "w"))
    lake.sql("create database db")
    more = f", {options}" if options else ""
    lake.sql(f"create table db.t (id int, n int, primary key (id)) tblproperties ('bucket' = '1'{more})")
    return lake


def alter(lake: Lake, **options: str) -> Table:
    given = ", ".join(f"'{key.replace('_', '-')}' = '{value}'" for key, value in options.items())
    lake.sql(f"alter table db.t set tblproperties ({given})")
    return lake.table("db.t")


def write(lake: Lake, *rows: tuple[int, int], **more: Any) -> None:
    ids, numbers = (pa.array(column, pa.int32()) for column in zip(*rows, strict=True))
    lake.table("db.t").write(pa.table({"id": ids, "n": numbers}), **more)


def rows(lake: Lake, **scan: Any) -> dict[int, int]:
    return {row["id"]: row["n"] for row in lake.table("db.t").scan(**scan).to_arrow().to_pylist()}


def folded(lake: Lake) -> dict[int, int]:
    return {key: row["n"] for key, row in newest(lake.table("db.t").tail("earliest", stop="latest")).items()}


def grown(place: Path, name: str) -> tuple[Lake, dict[int, int]]:
    """Rows of which some wait for a compaction, and what a merge of all of them gives."""
    lake = make(place, TABLES[name])
    write(lake, (1, 10), (2, 20))
    lake.table("db.t").compact(full=True)
    alter(lake, write_only="true")
    write(lake, (2, 21), (3, 30))
    return lake, {1: 10, 2: 20 if "first" in name else 41 if name == "sums" else 21, 3: 30}


@pytest.mark.parametrize("name", TABLES)
def test_a_rescale_keeps_every_row_and_shows_it_at_once(tmp_path: Path, name: str) -> None:
    lake, wanted = grown(tmp_path, name)
    before = lake.table("db.t").latest_snapshot()
    seen = rows(lake)
    for buckets in ("2", "3"):
        alter(lake, bucket=buckets).rescale()
        assert rows(lake) == wanted
    table = alter(lake, write_only="false")
    table.compact(full=True)
    assert rows(lake) == wanted
    write(lake, (4, 40))
    assert rows(lake) == wanted | {4: 40}
    if "log" in name:
        kept = {key: n for key, n in folded(lake).items() if "first" not in name}
        assert kept == ({} if "first" in name else wanted | {4: 40})
    assert before is not None
    between = (before.id, table.latest_snapshot().id)
    changed = table.scan(incremental_between=between, options={"incremental-between-scan-mode": "diff"}).to_arrow()
    assert {row["id"]: row["n"] for row in changed.to_pylist()} == {
        key: n for key, n in (wanted | {4: 40}).items() if seen.get(key) != n
    } or between[1] == before.id


STATEMENTS: dict[str, tuple[Callable[[Lake], object], Callable[[dict[int, int]], dict[int, int]]]] = {
    "delete": (lambda lake: lake.sql("delete from db.t"), lambda had: {}),
    "delete where": (
        lambda lake: lake.sql("delete from db.t where id > 1"),
        lambda had: {key: n for key, n in had.items() if key <= 1},
    ),
    "update": (lambda lake: lake.sql("update db.t set n = 7 where id > 1"), lambda had: had | {2: 7, 3: 7}),
    "truncate": (lambda lake: lake.sql("truncate table db.t"), lambda had: {}),
    "overwrite": (lambda lake: write(lake, (9, 90), overwrite=True), lambda had: {9: 90}),
}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_statement_meets_rows_that_wait_for_a_compaction(tmp_path: Path, name: str, statement: str) -> None:
    run, after = STATEMENTS[statement]
    lake, had = grown(tmp_path, name)
    run(lake)
    alter(lake, write_only="false").compact(full=True)
    assert rows(lake) == after(had)
    if "log" in name:
        lake.table("db.t").seal()
        assert folded(lake) == after(had)


def test_a_truncation_beside_a_log_shows_no_row_before_the_next_compaction(tmp_path: Path) -> None:
    lake, _ = grown(tmp_path, "vectors, log")
    lake.table("db.t").truncate()
    assert rows(lake) == {} == folded(lake)


def test_a_delete_by_vectors_beside_a_rescale_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = connect(str(tmp_path / "w"))
    lake.sql("create database db")
    options = f"'bucket' = '1', 'bucket-key' = 'id', {VECTORS}"
    lake.sql(f"create table db.t (id int, n int) tblproperties ({options})")
    write(lake, (1, 10), (2, 20))
    table, create, deletes = alter(lake, bucket="2"), TableCommit._create, [True]

    def late(commit: TableCommit, *given: Any) -> bool:
        if deletes:
            deletes.pop()
            lake.sql("delete from db.t where id = 1")
        return create(commit, *given)

    monkeypatch.setattr(TableCommit, "_create", late)
    with pytest.raises(CommitConflict, match="Try again"):
        table.rescale()
    assert rows(lake) == {2: 20}
    table.rescale()
    assert rows(lake) == {2: 20}


SUM = "'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum'"
BY_TIME = "'merge-engine' = 'aggregation', 'sequence.field' = 'q', 'fields.n.aggregate-function'"
Rows = list[tuple[int, int, str]]
LATE: dict[str, tuple[str, str, Rows, Rows, int | None]] = {
    "a sum that does not fit": ("tinyint", SUM, [(1, 100, "+I"), (2, 100, "+I")], [(3, -90, "+I")], 110),
    "a sum without NULL": ("tinyint not null", SUM, [(1, 100, "+I"), (2, 100, "+I")], [(3, 100, "-D")], 100),
    "what comes before the first value": ("int", f"{BY_TIME} = 'first_value'", [(2, 2, "+I"), (9, 9, "+I")],
                                          [(1, 1, "+I")], 1),
    "what is between two values": ("int", f"{BY_TIME} = 'first_value'", [(2, 2, "+I"), (9, 9, "+I")],
                                   [(5, 5, "+I")], 2),
    "what was taken back": ("int", f"{BY_TIME} = 'last_non_null_value'", [(2, 2, "+I"), (9, 2, "-U")],
                            [(5, 5, "+I")], None),
    "a row before a delete": ("int", "'sequence.field' = 'q'", [(2, 2, "+I"), (9, 2, "-D")], [(5, 5, "+I")], None),
}  # fmt: skip


@pytest.mark.parametrize("compacts", [False, True], ids=["level 0", "compacted"])
@pytest.mark.parametrize("name", LATE)
def test_a_rescale_changes_nothing_for_rows_that_come_later(tmp_path: Path, name: str, compacts: bool) -> None:
    kind, options, before, after, want = LATE[name]
    lake = connect(str(tmp_path / "w"))
    lake.sql(f"create table db.t (id int, q int, n {kind}, primary key (id)) tblproperties ('bucket' = '1', {options})")

    def add(row: tuple[int, int, str]) -> None:
        q, n, change = row
        number = pa.array([n], pa.int8() if kind.startswith("tiny") else pa.int32())
        lake.table("db.t").write(
            pa.table(
                {"id": pa.array([1], pa.int32()), "q": pa.array([q], pa.int32()), "n": number, "_row_kind": [change]}
            )
        )

    for row in before:
        add(row)
    if compacts:
        lake.table("db.t").compact(full=True)
    alter(lake, bucket="3").rescale()
    for row in after:
        add(row)
    assert lake.table("db.t").scan().to_arrow()["n"].to_pylist() == ([] if "delete" in name else [want])
