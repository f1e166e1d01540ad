"""Every storage call of a write without a log: the process dies there, or its answer is lost, and another one writes
the same rows again. Readers see the old rows or the new ones, never some of both."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pyarrow as pa
import pytest

from depth import Depth
from faults import DIE_AFTER, FAIL_BEFORE, LATE, LOST, Died, FaultPlan, FaultyFileIO
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
from lakelog.table.write.table_writer import TableWriter

OLD = dict.fromkeys(range(400), "old")
NEW = OLD | dict.fromkeys(range(200, 600), "new")


def arrow(ids: range, name: str) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "name": [name] * len(ids)})


def make_table(options: dict[str, str]) -> DynamicTable:
    catalog = FilesystemCatalog("/w", MemoryFileIO(new_uuid()))
    catalog.create_database("db")
    fields = [("id", parse_type("INT"), None), ("name", parse_type("STRING"), None)]
    schema = new_schema(fields, ("id",), (), {"write-only": "true", "commit.max-retry-wait": "1 ms", **options})
    return DynamicTable(create_table(catalog, Identifier("db", "t"), schema))


def append(table: DynamicTable, ids: range, name: str) -> None:
    with TableWriter(table) as writer:
        for first in range(ids.start, ids.stop, 100):
            writer.write(arrow(range(first, first + 100), name))


def content(table: DynamicTable) -> dict[int, str]:
    found = Scan(table).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["name"] for row in found}


def twin(table: DynamicTable) -> DynamicTable:
    """The same table in a storage of its own."""
    io = MemoryFileIO(new_uuid())
    io._store.files.update(table.io.inner._store.files)  # type: ignore[attr-defined]
    io._store.directories.update(table.io.inner._store.directories)  # type: ignore[attr-defined]
    return DynamicTable(replace(table.location, io=io))


def attempt(made: DynamicTable, plan: FaultPlan) -> None:
    table = twin(made)
    broken = replace(table, location=replace(table.location, io=FaultyFileIO(table.io, plan)))
    with contextlib.suppress(Died, LakelogError):
        append(broken, range(200, 600), "new")
    plan.arrive()
    assert content(table) in (OLD, NEW)
    assert table.registered.writers() == []
    append(table, range(200, 600), "new")
    assert content(table) == NEW


@pytest.mark.parametrize(
    "options",
    [{"bucket": "2"}, {"bucket": "2", "write-buffer-size": "1 kb"}, {"bucket": "-1"}],
    ids=["inline", "files", "dynamic"],
)
def test_a_write_that_goes_wrong_at_any_call_is_done_or_not(options: dict[str, str], depth: Depth) -> None:
    made = make_table(options)
    append(made, range(400), "old")
    assert content(made) == OLD
    counting = FaultPlan()
    attempt(made, counting)
    assert len(counting.calls) > 7
    for call in depth.some(counting.calls):
        for kind in (DIE_AFTER, FAIL_BEFORE, LOST, LATE):
            attempt(made, FaultPlan({call.number: kind}))
