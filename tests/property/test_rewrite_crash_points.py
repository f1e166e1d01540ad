"""Every storage call of a rewrite of data files: the process dies there, or its answer is lost, and another one does it
again. Readers see the old rows or the new ones, never some of both."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pyarrow as pa
import pytest

from depth import Depth
from faults import DIE_AFTER, LATE, LOST, Died, FaultPlan, FaultyFileIO
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.errors import LakelogError
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.create import create_table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.replace_files import commit_rewrite, files_to_rewrite
from lakelog.table.write.table_writer import TableWriter

OLD = [(i, "old") for i in range(6)]
NEW = [(i, "new" if i % 2 else "old") for i in range(5)]


def make_table() -> DynamicTable:
    catalog = FilesystemCatalog("/w", MemoryFileIO(new_uuid()))
    catalog.create_database("db")
    fields = [("id", parse_type("INT"), None), ("v", parse_type("STRING"), None)]
    schema = new_schema(fields, (), (), {"bucket": "-1", "commit.max-retry-wait": "1 ms"})
    table = DynamicTable(create_table(catalog, Identifier("db", "t"), schema))
    for part in (OLD[:3], OLD[3:]):
        with TableWriter(table) as writer:
            writer.write(arrow(part))
    return table


def arrow(rows: list[tuple[int, str]]) -> pa.Table:
    ids, v = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int32()), "v": v})


def content(table: DynamicTable) -> list[tuple[int, str]]:
    return sorted((r["id"], r["v"]) for r in Scan(table).to_arrow().to_pylist())


def rewrite(table: DynamicTable) -> None:
    if content(table) == NEW:  # a statement that is repeated finds nothing to do
        return
    writer = new_uuid()
    task = TaskWriter(table, writer, 0, 0, replaces=True)
    task.write(arrow(NEW).to_batches()[0])
    commit_rewrite(table, writer, [task.finish()], files_to_rewrite(table))


def twin(table: DynamicTable) -> DynamicTable:
    """The same table in a storage of its own."""
    io = MemoryFileIO(new_uuid())
    io._store.files.update(table.io.inner._store.files)  # type: ignore[attr-defined]
    io._store.directories.update(table.io.inner._store.directories)  # type: ignore[attr-defined]
    return DynamicTable(replace(table.location, io=io))


@pytest.mark.parametrize("kind", [DIE_AFTER, LOST, LATE])
def test_a_rewrite_is_there_or_it_is_not(kind, depth: Depth) -> None:
    made = make_table()
    plan = FaultPlan()
    table = twin(made)
    rewrite(replace(table, location=replace(table.location, io=FaultyFileIO(table.io, plan))))
    assert content(table) == NEW and len(plan.calls) > 5
    for call in depth.some(plan.calls):
        table = twin(made)
        fault = FaultPlan({call.number: kind})
        with contextlib.suppress(Died, LakelogError):
            rewrite(replace(table, location=replace(table.location, io=FaultyFileIO(table.io, fault))))
        fault.arrive()
        assert content(table) in (OLD, NEW), call
        rewrite(table)
        assert content(table) == NEW, call
