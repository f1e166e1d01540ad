"""A table whose log has format ``arrow``: packed rows keep the protocol's promises."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Unavailable, UnsupportedFeature
from lakelog.lake.table import Table
from lakelog.table.commit.committer import Committer
from lakelog.table.log.register import register_writer
from lakelog.table.staging.task_writer import TaskWriter


def make(tmp_path: Path, mode: str = "all", key: str = ", primary key (id)", buckets: int = 2) -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    more = ", 'bucket-key' = 'id'" if not key else ""
    lake.sql(
        f"create table db.t (id int, name string{key}) using lakelog tblproperties ('log-store.enabled' = 'true', "
        f"'log-store.data-format' = 'arrow', 'bucket' = '{buckets}', 'log.changelog-mode' = '{mode}'{more})"
    )
    return lake.table("db.t")


def rows(*changes: tuple[str, int, str]) -> pa.Table:
    kinds, ids, names = (list(c) for c in zip(*changes, strict=True))
    return pa.table({"id": pa.array(ids, pa.int32()), "name": names, "_row_kind": kinds})


def tail(table: Table, start: str = "earliest") -> list[tuple[str, int, str]]:
    batches = pa.Table.from_batches(table.tail(start, stop="latest"))
    return list(zip(*(batches.column(c).to_pylist() for c in ("_row_kind", "id", "name")), strict=True))


def fold(table: Table) -> dict[int, str]:
    state: dict[int, str] = {}
    for kind, key, name in tail(table):
        state.pop(key, None)
        if kind[0] == "+":
            state[key] = name
    return state


def files(table: Table) -> dict[int, str]:
    return {r["id"]: r["name"] for r in table.scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_log_and_files_are_equal_and_a_record_holds_many_rows(tmp_path: Path, mode: str) -> None:
    table = make(tmp_path, mode)
    with table.writer() as writer:
        writer.write(rows(*[("+I", i, "a") for i in range(1000)]))
        writer.write(rows(("-U", 1, "a"), ("+U", 1, "b"), ("-U", 1, "b"), ("+U", 1, "c"), ("-D", 2, "a")))
    want = {i: "a" for i in range(1000) if i != 2} | {1: "c"}
    assert files(table) == fold(table) == want
    assert sum(part.num_rows for part in table.log_records()) < 12


def test_rows_of_one_record_are_ordered_in_the_files(tmp_path: Path) -> None:
    table = make(tmp_path, "upsert", buckets=1)
    with table.writer() as writer:
        writer.write(rows(*[("+I", i % 7, f"v{i}") for i in range(10_000)]))
        writer.write(rows(("+I", 3, "last")))
    want = {i % 7: f"v{i}" for i in range(10_000)} | {3: "last"}
    assert files(table) == fold(table) == want


@pytest.mark.parametrize(
    ("mode", "key"), [("all", ", primary key (id)"), ("upsert", ", primary key (id)"), ("all", "")]
)
def test_rows_of_a_refused_attempt_are_taken_back(tmp_path: Path, mode: str, key: str) -> None:
    table = make(tmp_path, mode, key)
    inner = table.logical
    register_writer(inner, "w")
    lost = TaskWriter(inner, "w", 0, 0)
    lost.write(rows(("+I", 1, "lost"), ("+I", 2, "lost"), ("+I", 9, "lost")).to_batches()[0])
    lost.flush_log()
    good = TaskWriter(inner, "w", 0, 0)
    good.write(rows(("+I", 1, "good"), ("+I", 2, "good")).to_batches()[0])
    result = good.finish()
    late = TaskWriter(inner, "w", 0, 0)
    late.write(rows(("+I", 2, "late"), ("+I", 3, "late")).to_batches()[0])
    late.flush_log()
    Committer(inner, "w").commit(0, [result])
    assert files(table) == {1: "good", 2: "good"}
    if key:
        assert fold(table) == {1: "good", 2: "good"}
    if mode == "all":
        net: dict[tuple[int, str], int] = {}
        for kind, id_, name in tail(table):
            net[id_, name] = net.get((id_, name), 0) + (1 if kind[0] == "+" else -1)
        assert {row for row, n in net.items() if n} == {(1, "good"), (2, "good")}
    healed = sum(part.num_rows for part in table.log_records())
    Committer(inner, "w").commit(0, [result])
    assert sum(part.num_rows for part in table.log_records()) == healed, "the log has come to rest"


def test_a_log_without_files_heals_from_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, "upsert")
    only_log = {"emit.mode": "log"}
    with table.writer(options=only_log) as writer:
        writer.write(rows(("+I", 1, "a"), ("+I", 2, "b")))

    def full(self: TaskWriter) -> None:
        self.flush_log()
        raise Unavailable("disk full")

    monkeypatch.setattr(TaskWriter, "finish", full)
    with pytest.raises(Unavailable, match="disk full"), table.writer(options=only_log) as writer:
        writer.write(rows(("+I", 1, "lost"), ("+I", 3, "lost")))
    monkeypatch.undo()
    assert fold(table) == {1: "a", 2: "b"}


def test_a_changed_table_reads_its_old_records(tmp_path: Path) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        writer.write(rows(("+I", 1, "a")))
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("alter table db.t add column more bigint")
    table = lake.table("db.t")
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([2], pa.int32()), "name": ["b"], "more": [5]}))
    found = pa.Table.from_batches(table.tail("earliest", stop="latest"))
    got = dict(zip(found.column("id").to_pylist(), found.column("more").to_pylist(), strict=True))
    assert got == {1: None, 2: 5}


def test_offsets_without_room_for_rows_within_a_record_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a log that makes them from several numbers may be."""
    table = make(tmp_path)
    monkeypatch.setattr("lakelog.logstore.embedded.appender._Appended.offsets", lambda _: pa.array([1 << 51]))
    with pytest.raises(UnsupportedFeature, match="debezium-json"), table.writer() as writer:
        writer.write(rows(("+I", 1, "a")))
