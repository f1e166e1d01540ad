"""Every storage call of a streaming write: the process dies before and after it, starts again, both stores are
equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from depth import Depth
from faults import DEATHS, Died, FaultPlan, FaultyFileIO
from lakelog.lake.lake import CatalogTables
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.create import create_table
from lakelog.table.log.register import register_writer
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.compaction_job import compact_table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import state_at
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.open import identifier_of
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging.task_writer import TaskWriter

EPOCHS = [
    [(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")],
    [(1, "a", "-U"), (1, "A", "+U"), (2, "b", "-D"), (4, "d", "+I")],
    [(3, "c", "-U"), (3, "C", "+U"), (2, "B", "+I")],
    [(4, "d", "-D"), (1, "A", "-U"), (1, "AA", "+U")],
]
WANT = {1: "AA", 2: "B", 3: "C"}


def make_table(tmp_path, mode: str, form: str) -> DynamicTable:
    options = {
        "bucket": "1",
        "log-store.enabled": "true",
        "log.writer-timeout": "1 h",  # no lease is renewed meanwhile: the calls of the storage are numbered
        "log.changelog-mode": mode,
        "log-store.data-format": form,
        "num-sorted-run.compaction-trigger": "2",
    }
    fields = [("id", parse_type("INT"), None), ("name", parse_type("STRING"), None)]
    tables = CatalogTables(str(tmp_path / "warehouse"))
    tables.create_database("db", True)
    schema = new_schema(fields, ("id",), (), options, None, 0)
    return DynamicTable(create_table(tables.catalog, identifier_of("db.t"), schema))


def run(table: DynamicTable, position: Iterator[int] | None = None, first: int = 0) -> Iterator[int]:
    """One process: writes epochs from ``first`` on and yields each that Spark would count as done."""
    committer = Committer(table, "w")
    register_writer(table, "w")
    for epoch in range(first, len(EPOCHS)):
        sealed = state_at(table.store, table.store.latest_snapshot()).sealed_epoch("w")
        results = []
        if epoch > sealed and waiting_epochs(table).find("w", epoch) is None:
            ids, names, kinds = zip(*EPOCHS[epoch], strict=True)
            task = TaskWriter(table, "w", epoch, 0)
            task.write(pa.record_batch({"id": pa.array(ids, pa.int32()), "name": names, "_row_kind": kinds}))
            results.append(task.finish())
        committer.commit(epoch, results)
        if epoch % 2:
            seal(committer)
            compact_table(table, full=False)
        yield epoch


def fold(table: DynamicTable) -> dict[int, str]:
    state: dict[int, str] = {}
    scan = LogScan(table)
    for batch in scan.read(0, scan.reader.first_offsets()[0], scan.reader.end_offsets()[0]):
        for change in batch.to_pylist():
            state.pop(change["id"], None)
            if change["_row_kind"][0] == "+":
                state[change["id"]] = change["name"]
    return state


def files(table: DynamicTable) -> dict[int, str]:
    rows = Scan(table).to_arrow().to_pylist()
    assert len({r["id"] for r in rows}) == len(rows)
    return {r["id"]: r["name"] for r in rows}


def check(tmp_path, mode: str, form: str, plan: FaultPlan) -> None:
    """Runs the job as planned, with a restart after a death."""
    table = make_table(tmp_path, mode, form)
    dying = DynamicTable(replace(table.location, io=FaultyFileIO(table.io, plan)))
    done = -1
    try:
        for epoch in run(dying):
            done = epoch
    except Died:
        for epoch in run(table, first=done + 1):
            done = epoch
    assert done == len(EPOCHS) - 1
    assert files(table) == WANT, "files"
    assert fold(table) == WANT, "log"


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize(("mode", "form"), [("all", "debezium-json"), ("upsert", "debezium-json"), ("all", "arrow")])
def test_a_death_at_any_storage_call_loses_and_repeats_nothing(tmp_path, mode, form, death, depth: Depth) -> None:
    whole = FaultPlan()
    check(tmp_path / "whole", mode, form, whole)
    assert len(whole.calls) > 20
    for call in depth.some(whole.calls):
        plan = FaultPlan({call.number: death})
        check(tmp_path / str(call.number), mode, form, plan)
        assert plan.hit
