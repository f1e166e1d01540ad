"""Every storage call of a write or overwrite of a table with waiting epochs: the process dies there, or its answer is
lost, and another one does it again. Readers see the old rows or the new ones, never some of both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from overwrite_jobs import by_rows, dropped, emptied, of_named

from changelogs import newest
from depth import Depth
from faults import DIE_AFTER, FAIL_BEFORE, LATE, LOST, Died, FaultPlan, FaultyFileIO
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.errors import LakelogError
from lakelog.io import machine
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.schema.changes import SetOption
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.alter import alter_table
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.create import create_table
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.tail.subscribe import follow
from lakelog.table.write.rescale import rescale
from lakelog.table.write.table_writer import TableWriter

KINDS = {
    "2": (DIE_AFTER, LOST, LATE),
    "files": (DIE_AFTER, FAIL_BEFORE, LOST, LATE),
    "-1": (DIE_AFTER, LOST),
    "log": (DIE_AFTER, LOST, LATE),
    "log of all changes": (DIE_AFTER, LOST),
}
"""By options. Dying before a call leaves what dying after the one before it leaves."""
OPTIONS = {
    "2": {"bucket": "2"},
    "files": {"bucket": "2", "write-buffer-size": "1 b"},
    "-1": {"bucket": "-1"},
    "log": {
        "bucket": "2",
        "log-store.enabled": "true",
        "log-store.type": "files",
        "log.writer-timeout": "1 h",  # no lease is renewed meanwhile: the calls of the storage are numbered
    },
    "log of all changes": {
        "bucket": "-1",
        "log-store.enabled": "true",
        "log-store.type": "files",
        "log-store.partitions": "2",
        "log-store.data-format": "debezium-json",
        "log.changelog-mode": "all",
        "log.writer-timeout": "1 h",
    },
}

Rows = set[tuple[str, int, str]]
OLD: Rows = {("a", 1, "sealed"), ("b", 1, "sealed"), ("a", 2, "waits"), ("b", 2, "waits")}
NEW: Rows = {("a", 1, "new"), ("a", 7, "new")}
OF_B: Rows = {row for row in OLD if row[0] == "b"}


def arrow(rows: Rows) -> pa.Table:
    p, ids, v = zip(*sorted(rows), strict=True)
    return pa.table({"p": p, "id": pa.array(ids, pa.int32()), "v": v})


def make_table(bucket: str) -> DynamicTable:
    """A table whose newest epochs are decided but in no snapshot."""
    catalog = FilesystemCatalog("/w", MemoryFileIO(new_uuid()))
    catalog.create_database("db")
    fields = [("p", parse_type("STRING"), None), ("id", parse_type("INT"), None), ("v", parse_type("STRING"), None)]
    schema = new_schema(fields, ("p", "id"), ("p",), {**OPTIONS[bucket], "commit.max-retry-wait": "1 ms"})
    table = DynamicTable(create_table(catalog, Identifier("db", "t"), schema))
    with TableWriter(table) as writer:
        writer.write(arrow({row for row in OLD if row[2] == "sealed"}))
    committer = Committer(table, "stream")
    for epoch, row in enumerate(sorted(row for row in OLD if row[2] == "waits")):
        task = TaskWriter(table, "stream", epoch, 0)
        task.write(arrow({row}).to_batches()[0])
        committer.commit(epoch, [task.finish()])
    return table


def appended(table: DynamicTable) -> None:
    with TableWriter(table) as writer:
        for row in sorted(NEW):
            writer.write(arrow({row}))


JOBS: dict[str, tuple[Callable[[DynamicTable], None], Rows]] = {
    "dynamic": (partial(by_rows, arrow(NEW)), NEW | OF_B),
    "static": (partial(of_named, arrow(NEW)), NEW | OF_B),
    "drop": (dropped, OF_B),
    "truncate": (emptied, set()),
    "append": (appended, NEW | {row for row in OLD if row[:2] != ("a", 1)}),
}


def content(table: DynamicTable) -> Rows:
    found = [tuple(row.values()) for row in Scan(table).to_arrow().to_pylist()]
    assert len(set(found)) == len(found)
    return set(found)  # type: ignore[arg-type]


def folded(table: DynamicTable) -> Rows:
    """The rows that a reader of the log has at its end."""
    return {tuple(row.values()) for row in newest(follow(LogScan(table), "earliest", "latest"), "p", "id").values()}  # type: ignore[misc]


def twin(table: DynamicTable) -> DynamicTable:
    """The same table in a storage of its own."""
    io = MemoryFileIO(new_uuid())
    io._store.files.update(table.io.inner._store.files)  # type: ignore[attr-defined]
    io._store.directories.update(table.io.inner._store.directories)  # type: ignore[attr-defined]
    return DynamicTable(replace(table.location, io=io))


def attempt(job: Callable[[DynamicTable], None], after: Rows, plan: FaultPlan, made: DynamicTable) -> None:
    table = twin(made)
    broken = replace(table, location=replace(table.location, io=FaultyFileIO(table.io, plan)))
    with contextlib.suppress(Died, LakelogError):
        job(broken)
    plan.arrive()
    assert content(table) in (OLD, after)
    assert table.log is not None or table.registered.writers() == []
    job(table)
    assert content(table) == after
    assert table.log is None or folded(table) == after
    # the stream goes on: what was replaced does not come back
    committer = Committer(table, "stream")
    committer.commit(2, [])
    seal(committer)
    assert content(table) == after


RESCALED: dict[str, dict[str, str]] = {
    "files": {"bucket": "2"},
    "vectors": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "log": {**OPTIONS["log"], "log-store.partitions": "2"},
    "changes": {**OPTIONS["log"], "log-store.partitions": "2", "log.content": "changes"},
}


@pytest.mark.parametrize("kind", RESCALED)
def test_a_rescale_that_goes_wrong_at_any_call_changes_no_row(
    kind: str, depth: Depth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "is_running", lambda process: False)
    monkeypatch.setitem(OPTIONS, kind, RESCALED[kind])
    made = make_table(kind)
    catalog = FilesystemCatalog("/w", made.io.inner)  # type: ignore[attr-defined]
    made = DynamicTable(alter_table(catalog, Identifier("db", "t"), [SetOption("bucket", "3")]))
    old = content(made)
    folds_old = made.log is None or made.publishes or folded(made) == OLD

    def attempted(plan: FaultPlan) -> None:
        table = twin(made)
        broken = replace(table, location=replace(table.location, io=FaultyFileIO(table.io, plan)))
        with contextlib.suppress(Died, LakelogError):
            rescale(broken)
        plan.arrive()
        assert content(table) in (old, OLD)
        rescale(table)
        assert content(table) == OLD
        assert {entry.total_buckets for entry in table.store.live_entries(table.store.latest_snapshot())} == {3}
        if made.log is not None and folds_old:
            assert folded(table) == OLD
        committer = Committer(table, "stream")
        committer.commit(2, [])
        seal(committer)
        assert content(table) == OLD

    counting = FaultPlan()
    attempted(counting)
    assert len(counting.calls) > 5
    for call in depth.some(counting.calls):
        for fault in (DIE_AFTER, LOST, LATE):
            attempted(FaultPlan({call.number: fault}))


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("bucket", OPTIONS)
def test_a_write_that_goes_wrong_at_any_call_is_done_or_not(
    job: str, bucket: str, depth: Depth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "is_running", lambda process: False)  # the one that dies has the lease
    act, after = JOBS[job]
    made = make_table(bucket)
    assert content(made) == OLD
    counting = FaultPlan()
    attempt(act, after, counting, made)
    assert len(counting.calls) > 10
    for call in depth.some(counting.calls):
        for kind in KINDS[bucket]:
            attempt(act, after, FaultPlan({call.number: kind}), made)
