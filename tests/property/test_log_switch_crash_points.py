"""Crash points of a statement that adds a log to a table, or removes it: at every call of the storage.

The process dies there, its answer is lost or late, or another process does all of it while this one is suspended. A
writer that has the table open writes before, and another one after. Afterwards both stores have the same rows.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from depth import Depth
from faults import DIE_AFTER, DIE_BEFORE, LATE, LOST, Died, FaultPlan, FaultyFileIO
from lakelog.catalog.base import Catalog
from lakelog.errors import LakelogError
from lakelog.lake.lake import CatalogTables
from lakelog.logstore.clients import drop_clients
from lakelog.paimon.schema.changes import SchemaChange, SetOption
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.alter import alter_table
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal_staged
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.create import create_table
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.publish import publish
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.open import identifier_of
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.tail.subscribe import follow
from lakelog.table.write.table_writer import TableWriter

NAME = identifier_of("db.t")
KEYS = {"key": ("id",), "no key": ()}


def arrow(ids: Sequence[int]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32())})


def switched(content: str, on: bool) -> list[SchemaChange]:
    options = {"log-store.enabled": str(on).lower()}
    options |= {"log-store.type": "files", "log.content": content} if on else {}
    return [SetOption(key, value) for key, value in options.items()]


def opened(warehouse: Path) -> DynamicTable:
    return DynamicTable(CatalogTables(str(warehouse)).catalog.load_table(NAME))


@dataclass
class Tables:
    """Copies of one table with two rows: 1 in a snapshot, 2 decided by a stream and not sealed."""

    root: Path
    key: str
    content: str
    has_log: bool
    made: int = 0

    def __post_init__(self) -> None:
        tables = CatalogTables(str(self.root / "0"))
        tables.create_database("db", True)
        options = {"log.writer-timeout": "1 h", "commit.max-retry-wait": "1 ms", "write-only": "true"}
        schema = new_schema([("id", parse_type("INT"), None)], KEYS[self.key], (), options)
        create_table(tables.catalog, NAME, schema)
        if self.has_log:
            alter_table(tables.catalog, NAME, switched(self.content, on=True))
        with TableWriter(opened(self.root / "0")) as writer:
            writer.write(arrow([1]))
        decided(opened(self.root / "0"), 0, 2)

    def copy(self) -> Path:
        self.made += 1
        shutil.copytree(self.root / "0", self.root / str(self.made))
        drop_clients()
        return self.root / str(self.made)


def decided(table: DynamicTable, number: int, row: int) -> None:
    task = TaskWriter(table, "query", number, 0)
    task.write(arrow([row]).to_batches()[0])
    Committer(table, "query").commit(number, [task.finish()])


class FaultyCatalog:
    """A catalog whose storage goes wrong."""

    def __init__(self, catalog: Catalog, plan: FaultPlan) -> None:
        self._catalog = catalog
        io = FaultyFileIO(catalog.table_io(NAME), plan)
        catalog._io = io  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self._catalog, name)


def switch(warehouse: Path, content: str, on: bool, plan: FaultPlan | None = None) -> None:
    catalog = CatalogTables(str(warehouse)).catalog
    if plan is not None:
        catalog = FaultyCatalog(catalog, plan)  # type: ignore[assignment]
    alter_table(catalog, NAME, switched(content, on))


def silence(table: DynamicTable) -> None:
    """Lets all leases run out, of writers and of statements."""
    for name, found in table.registered.all().items():
        table.registered.write_lease(name, found.kind)
    for work in ("publish", "log-switch"):
        table.io.delete_dir(f"{table.path}/lakelog/{work}")


def content_of(table: DynamicTable, **options: str) -> list[int]:
    return sorted(row["id"] for row in Scan(table.with_hints(options)).to_arrow().to_pylist())


def folded(table: DynamicTable, **options: str) -> list[int]:
    net: Counter[int] = Counter()
    for batch in follow(LogScan(table.with_hints(options)), "latest-full", "latest"):
        for row in batch.to_pylist():
            net[row["id"]] += 1 if row["_row_kind"] in ("+I", "+U") else -1
    if table.schema.is_keyed:  # an upsert log may repeat a row
        return sorted(number for number, count in net.items() if count > 0)
    assert not any(count < 0 for count in net.values()), net
    return sorted(net.elements())


def check_rest(warehouse: Path, content: str, on: bool) -> None:
    """The statement is run once more, rows are written, and both stores have all of them."""
    drop_clients()
    silence(opened(warehouse))
    switch(warehouse, content, on)
    table = opened(warehouse)
    assert (table.log is not None) == on
    wanted = {1, 2}
    with TableWriter(table) as writer:
        writer.write(arrow([8]))
    decided(opened(warehouse), 1, 9)
    for _ in range(3):
        silence(table)
        take_over_now(table)
    seal_staged(table)
    publish(table)
    assert content_of(table) == sorted(wanted | {8, 9})
    if on:
        assert folded(table) == folded(table, **{"log.consistency": "transactional"}) == sorted(wanted | {8, 9})


CASES = [(key, content, on) for key in KEYS for content in ("input", "changes") for on in (True, False)]


@pytest.mark.parametrize(("key", "content", "on"), CASES)
def test_a_statement_that_goes_wrong_at_any_call_loses_no_row(
    tmp_path: Path, key: str, content: str, on: bool, depth: Depth
) -> None:
    made, plan = Tables(tmp_path, key, content, not on), FaultPlan()
    warehouse = made.copy()
    switch(warehouse, content, on, plan)
    check_rest(warehouse, content, on)
    assert len(plan.calls) > 5
    for call in depth.some(plan.calls):
        for kind in (DIE_BEFORE, DIE_AFTER, LOST, LATE):
            warehouse, fault = made.copy(), FaultPlan({call.number: kind})
            with contextlib.suppress(Died, LakelogError):
                switch(warehouse, content, on, fault)
            with contextlib.suppress(LakelogError):
                fault.arrive()
            drop_clients()
            assert content_of(opened(warehouse)) == [1, 2], (call, kind)
            check_rest(warehouse, content, on)


class _Suspended(FaultPlan):
    """Suspends the process before one call, while another one does the same."""

    def __init__(self, warehouse: Path, content: str, on: bool, number: int) -> None:
        super().__init__()
        self._act, self._number = (warehouse, content, on), number

    def _begin(self, name: str, path: str) -> tuple[str | None, int]:
        found = super()._begin(name, path)
        if found[1] == self._number:
            with ThreadPoolExecutor(1) as other:
                other.submit(self._meanwhile).result()
        return found

    def _meanwhile(self) -> None:
        silence(opened(self._act[0]))
        with contextlib.suppress(LakelogError):
            switch(*self._act)
        with contextlib.suppress(LakelogError), TableWriter(opened(self._act[0])) as writer:
            writer.write(arrow([8]))


@pytest.mark.parametrize(("key", "content", "on"), CASES)
def test_two_processes_that_run_the_statement_leave_one_table(
    tmp_path: Path, key: str, content: str, on: bool, depth: Depth
) -> None:
    made, plan = Tables(tmp_path, key, content, not on), FaultPlan()
    switch(made.copy(), content, on, plan)
    for call in depth.some(plan.calls):
        warehouse = made.copy()
        with contextlib.suppress(LakelogError):
            switch(warehouse, content, on, _Suspended(warehouse, content, on, call.number))
        drop_clients()
        table = opened(warehouse)
        silence(table)
        switch(warehouse, content, on)
        table = opened(warehouse)
        take_over_now(table)
        publish(table)
        found = content_of(table)
        assert set(found) >= {1, 2}, call
        if on:
            assert folded(table) == found, call


def test_a_dropped_storage_call_is_counted(tmp_path: Path) -> None:
    """The faults reach the statement: the schema, the log and the snapshot are among its calls."""
    made, plan = Tables(tmp_path, "key", "input", has_log=False), FaultPlan()
    switch(made.copy(), "input", on=True, plan=plan)
    paths = " ".join(call.path for call in plan.calls)
    for part in ("schema/schema-1", "lakelog/log/log.json", "lakelog/chain/", "snapshot/snapshot-"):
        assert part in paths
