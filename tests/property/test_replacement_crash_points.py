"""Crash points of a replacement of rows without a key, beside a log of input rows: at every storage call.

The process dies there, its answer is lost or late, or it is suspended while another process takes over. Afterwards
both stores have all changes or none.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from overwrite_jobs import by_rows, dropped, emptied, of_named

from changelogs import added_up
from depth import Depth
from faults import DIE_AFTER, LATE, LOST, Died, FaultPlan, FaultyFileIO
from lakelog.errors import CommitConflict, LakelogError
from lakelog.io.names import new_uuid
from lakelog.lake.lake import CatalogTables
from lakelog.logstore.clients import drop_clients
from lakelog.paimon.schema.changes import AddColumn
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.alter import alter_table
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.create import create_table
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import newest_state
from lakelog.table.model.registrations import BATCH
from lakelog.table.open import identifier_of
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.tail.subscribe import follow
from lakelog.table.write.overwrite import truncate
from lakelog.table.write.replace_files import commit_rewrite, files_to_rewrite
from lakelog.table.write.replaced_rows import files_alone
from lakelog.table.write.table_writer import TableWriter

Rows = list[tuple[str, int]]
OLD: Rows = [("a", 1), ("a", 1), ("a", 2), ("b", 1), ("b", 2)]
NEW: Rows = [("a", 1), ("a", 7)]
OF_B: Rows = [row for row in OLD if row[0] == "b"]


def arrow(rows: Rows) -> pa.Table:
    p, ids = zip(*rows, strict=True)
    return pa.table({"p": p, "id": pa.array(ids, pa.int32())})


def make_table(warehouse: Path, form: str) -> DynamicTable:
    fields = [("p", parse_type("STRING"), None), ("id", parse_type("INT"), None)]
    options = {
        "bucket": "2",
        "bucket-key": "id",
        "log-store.enabled": "true",
        "log-store.type": "files",
        "log-store.data-format": form,
        "log.writer-timeout": "1 h",  # no lease is renewed meanwhile: the calls of the storage are numbered
        "commit.max-retry-wait": "1 ms",
    }
    tables = CatalogTables(str(warehouse))
    tables.create_database("db", True)
    schema = new_schema(fields, (), ("p",), options)
    table = DynamicTable(create_table(tables.catalog, identifier_of("db.t"), schema))
    for part in (OLD[:2], OLD[2:]):
        with TableWriter(table) as writer:
            writer.write(arrow(part))
    return table


@dataclass
class Tables:
    """Copies of one table, each with its own files and log."""

    root: Path
    form: str
    made: int = 0

    def __post_init__(self) -> None:
        make_table(self.root / "0", self.form)

    def copy(self) -> DynamicTable:
        self.made += 1
        shutil.copytree(self.root / "0", self.root / str(self.made))
        return DynamicTable(CatalogTables(str(self.root / str(self.made))).catalog.load_table(identifier_of("db.t")))


def updated(table: DynamicTable) -> None:
    rows = [(p, 7 if n == 2 else n) for p, n in content(table)]
    writer = new_uuid()
    task = TaskWriter(files_alone(table), writer, 0, 0, replaces=True)
    task.write(arrow(rows).to_batches()[0])
    commit_rewrite(table, writer, [task.finish()], files_to_rewrite(table))


JOBS: dict[str, tuple[Callable[[DynamicTable], None], Rows]] = {
    "dynamic": (partial(by_rows, arrow(NEW)), NEW + OF_B),
    "static": (partial(of_named, arrow(NEW)), NEW + OF_B),
    "drop": (dropped, OF_B),
    "truncate": (emptied, []),
    "update": (updated, [("a", 1), ("a", 1), ("a", 7), ("b", 1), ("b", 7)]),
}


def content(table: DynamicTable, **options: str) -> Rows:
    found = Scan(table.with_hints(options)).to_arrow().to_pylist()
    return sorted((row["p"], row["id"]) for row in found)


def folded(table: DynamicTable, start: str = "earliest", **options: str) -> Rows:
    """The rows that a reader of the log has at its end; none of them less than not at all."""
    found = added_up(follow(LogScan(table.with_hints(options)), start, "latest"))
    assert not any(count < 0 for count in found.values()), found
    return sorted(found.elements())


def silence(table: DynamicTable) -> None:
    """Lets all leases run out."""
    for name, found in table.registered.all().items():
        table.registered.write_lease(name, found.kind)
    table.io.delete_dir(f"{table.path}/lakelog/publish")


def come_to_rest(table: DynamicTable) -> None:
    """What maintenance does once the leases have run out."""
    silence(table)
    for _ in range(3):
        take_over_now(table)
    assert not table.registered.all()
    assert not table.decided.all()


def check_rest(table: DynamicTable, allowed: list[Rows]) -> None:
    drop_clients()
    come_to_rest(table)
    found = content(table)
    assert found in map(sorted, allowed)
    union, committed = {"read.mode": "union"}, {"log.consistency": "transactional"}
    assert folded(table) == folded(table, **committed) == folded(table, "latest-full") == found
    assert content(table, **union) == found
    assert folded(table, "latest-full", **committed) == found


def broken(table: DynamicTable, plan: FaultPlan) -> DynamicTable:
    drop_clients()  # those of the log have a storage of their own
    return replace(table, location=replace(table.location, io=FaultyFileIO(table.io, plan)))


@pytest.mark.parametrize(("job", "form"), [*((job, "arrow") for job in JOBS), ("update", "debezium-json")])
def test_a_replacement_that_goes_wrong_at_any_call_is_done_or_not(
    tmp_path: Path, job: str, form: str, depth: Depth
) -> None:
    """After a success, the rows are there. After an error, all of them are, or none."""
    act, after = JOBS[job]
    made, plan = Tables(tmp_path, form), FaultPlan()
    table = made.copy()
    act(broken(table, plan))
    check_rest(table, [after])
    assert len(plan.calls) > 10
    for call in depth.some(plan.calls):
        for kind in (DIE_AFTER, LOST, LATE):
            table, fault = made.copy(), FaultPlan({call.number: kind})
            allowed = [OLD, after]
            with contextlib.suppress(Died, LakelogError):
                act(broken(table, fault))
                allowed = [after]
            fault.arrive()
            assert content(table) in map(sorted, allowed), call
            check_rest(table, allowed)


class _Suspended(FaultPlan):
    """Suspends the process before one call, while another one takes over from it."""

    def __init__(self, table: DynamicTable, number: int) -> None:
        super().__init__()
        self._table, self._number = table, number

    def _begin(self, name: str, path: str) -> tuple[str | None, int]:
        found = super()._begin(name, path)
        if found[1] == self._number:
            with ThreadPoolExecutor(1) as other:
                other.submit(come_to_rest, self._table).result()
        return found


@pytest.mark.parametrize("job", ["static", "update"])
def test_a_process_that_resumes_after_another_one_took_over_has_replaced_all_or_nothing(
    tmp_path: Path, job: str, depth: Depth
) -> None:
    act, after = JOBS[job]
    made, plan = Tables(tmp_path, "arrow"), FaultPlan()
    act(broken(made.copy(), plan))
    outcomes: Counter[str] = Counter()
    for call in depth.some(plan.calls):
        table = made.copy()
        try:
            act(broken(table, _Suspended(table, call.number)))
            allowed, outcome = [after], "done"
        except LakelogError as failure:
            allowed, outcome = [OLD, after], type(failure).__name__
        outcomes[outcome] += 1
        check_rest(table, allowed)
    assert outcomes.keys() == {"done"}


def test_a_writer_of_another_table_of_this_name_moves_no_offsets(tmp_path: Path) -> None:
    """A process of a table that was renamed registers in the directory of the next one, with offsets of its own log."""
    table = make_table(tmp_path, "arrow")
    table.registered.register("replace-other", {0: 1000, 1: 1000}, BATCH)
    before = newest_state(table.store)[1]
    come_to_rest(table)
    after = newest_state(table.store)[1]
    assert after.offsets == before.offsets
    drop_clients()
    assert folded(table) == content(table) == sorted(OLD)


def test_a_handle_of_before_an_alter_replaces_rows_with_all_their_columns(tmp_path: Path) -> None:
    old = make_table(tmp_path, "arrow")
    catalog = CatalogTables(str(tmp_path)).catalog
    alter_table(catalog, identifier_of("db.t"), [AddColumn(("w",), parse_type("INT"))])
    table = DynamicTable(catalog.load_table(identifier_of("db.t")))
    with TableWriter(table) as writer:
        writer.write(pa.table({"p": ["a"], "id": pa.array([1], pa.int32()), "w": pa.array([5], pa.int32())}))
    with pytest.raises(CommitConflict, match="was altered"):
        updated(old)
    truncate(old)
    rows = [row for batch in follow(LogScan(table), "earliest", "latest") for row in batch.to_pylist()]
    net = Counter[tuple[object, ...]]()
    for row in rows:
        net[row["p"], row["id"], row["w"]] += 1 if row["_row_kind"] == "+I" else -1
    assert not any(net.values())
