"""Every storage call of a change that exports Iceberg metadata: the process dies there, or the call fails.

A reader of the metadata sees one state of the table, never a part, and the next commit brings them up to date.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from depth import Depth
from faults import DIE_AFTER, FAIL_BEFORE, LOST, Died, FaultPlan, FaultyFileIO
from iceberg_reader import IcebergReader
from iceberg_vector_tables import delete_rows
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.errors import LakelogError, NotFound
from lakelog.filestore.gc.expiry import Retention
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.options.option import parse_duration
from lakelog.paimon.schema.changes import SetOption
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.alter import alter_table
from lakelog.table.create import create_table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan
from lakelog.table.write.table_writer import TableWriter

OPTIONS = {"write-only": "true", "commit.max-retry-wait": "1 ms", "metadata.iceberg.storage": "table-location"}
WITH_VECTORS = {"metadata.iceberg.format-version": "3", "deletion-vectors.enabled": "true"}
Rows = list[int]


def append(table: DynamicTable, first: int) -> None:
    with TableWriter(table) as writer:
        writer.write(pa.table({"id": pa.array([first, first + 1], pa.int32())}))


def made_table(with_vectors: bool) -> DynamicTable:
    catalog = FilesystemCatalog("/w", MemoryFileIO(new_uuid()))
    catalog.create_database("db")
    options = {**OPTIONS, **(WITH_VECTORS if with_vectors else {})}
    schema = new_schema([("id", parse_type("INT"), None)], (), (), options)
    table = DynamicTable(create_table(catalog, Identifier("db", "t"), schema))
    for first in (0, 10, 20, 30):
        append(table, first)
        if with_vectors and first in (10, 20):
            delete_rows(table, first, first - 9)
    table.store.tags.create("early", 2)
    return table


def twin(table: DynamicTable) -> DynamicTable:
    """The same table in a storage of its own."""
    io = MemoryFileIO(new_uuid())
    io._store.files.update(table.io.inner._store.files)  # type: ignore[attr-defined]
    io._store.directories.update(table.io.inner._store.directories)  # type: ignore[attr-defined]
    return DynamicTable(replace(table.location, io=io))


def content(table: DynamicTable) -> Rows:
    return sorted(row["id"] for row in Scan(table).to_arrow().to_pylist())


def seen(table: DynamicTable) -> Rows | None:
    """What a reader of the Iceberg metadata sees; None if it finds a file of a removed snapshot gone."""
    try:
        return sorted(row["id"] for row in IcebergReader(table.io, table.location.path).rows())
    except NotFound:
        return None


def expire(store: FileStore) -> None:
    store.expire_snapshots(Retention(1, 1, parse_duration("1 ms"), 10))


def upgrade(table: DynamicTable) -> None:
    """Version 3, and then a change that exports."""
    io: Any = table.io
    while not isinstance(io, MemoryFileIO):
        io = io.inner
    altered = alter_table(
        FilesystemCatalog("/w", io), Identifier("db", "t"), [SetOption("metadata.iceberg.format-version", "3")]
    )
    DynamicTable(replace(table.location, schema=altered.schema)).store.tags.create("late", 3)


ACTS: dict[str, Callable[[DynamicTable], object]] = {
    "append": lambda table: append(table, 40),
    "delete": lambda table: delete_rows(table, 0, 21, 31),
    "expiry": lambda table: expire(table.store),
    "rollback": lambda table: table.store.restore(table.store.snapshot(3)),
    "tag": lambda table: table.store.tags.create("late", 3),
    "no tag": lambda table: table.store.tags.delete("early"),
    "upgrade": upgrade,
}
CASES = [(act, False) for act in ACTS if act != "delete"] + [(act, True) for act in ACTS if act != "upgrade"]


@pytest.mark.parametrize(("act", "with_vectors"), CASES)
def test_a_change_that_goes_wrong_at_any_call_leaves_a_state_and_is_repaired(
    act: str, with_vectors: bool, depth: Depth
) -> None:
    made = made_table(with_vectors)
    before = content(made)
    counting = FaultPlan()
    whole = twin(made)
    ACTS[act](replace(whole, location=replace(whole.location, io=FaultyFileIO(whole.io, counting))))
    after = content(whole)
    assert seen(whole) == after
    assert len(counting.calls) > 1
    for call in depth.some(counting.calls):
        for kind in (DIE_AFTER, FAIL_BEFORE, LOST):
            table = twin(made)
            plan = FaultPlan({call.number: kind})
            with contextlib.suppress(Died, LakelogError):
                ACTS[act](replace(table, location=replace(table.location, io=FaultyFileIO(table.io, plan))))
            # a rollback removes the files of its newer snapshots before the export
            assert seen(table) in (before, after, *([None] if act == "rollback" else [])), (call, kind)
            append(table, 90)
            reader = IcebergReader(table.io, table.location.path)
            assert seen(table) == content(table), (call, kind)
            assert reader.version == table.store.snapshots.latest_id()
            assert reader.tags == {tag.name: tag.snapshot.id for tag in table.store.tags.list()}
            for snapshot_id in reader.snapshots:
                reader.rows(snapshot_id)
