"""Every storage call of a streaming write: the process dies before and after it, starts again, both stores are
equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from changelogs import newest
from depth import Depth
from faults import DEATHS, Died, FaultPlan, FaultyFileIO
from lakelog.lake.lake import CatalogTables
from lakelog.paimon.schema.changes import SetOption
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.alter import alter_table
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
from lakelog.table.read.union_scan import union_scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.rescale import rescale

EPOCHS = [
    [(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")],
    [(1, "a", "-U"), (1, "A", "+U"), (2, "b", "-D"), (4, "d", "+I")],
    [(3, "c", "-U"), (3, "C", "+U"), (2, "B", "+I")],
    [(4, "d", "-D"), (1, "A", "-U"), (1, "AA", "+U")],
]
WANT = {1: "AA", 2: "B", 3: "C"}


PLACES = {
    "one bucket": {"bucket": "1"},
    "more buckets than log partitions": {"bucket": "3", "log-store.partitions": "2"},
    "dynamic buckets": {"bucket": "-1", "log-store.partitions": "2", "dynamic-bucket.target-row-num": "2"},
    "a rescale": {"bucket": "2"},
}


def make_table(tmp_path, mode: str, form: str, places: str) -> DynamicTable:
    options = {
        **PLACES[places],
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


def rescale_to(table: DynamicTable, number: int) -> None:
    """ALTER TABLE and a rescale by another process."""
    catalog = CatalogTables(table.path.split("/db.db")[0]).catalog
    alter_table(catalog, identifier_of("db.t"), [SetOption("bucket", str(number))])
    location = catalog.load_table(identifier_of("db.t"))
    rescale(DynamicTable(replace(location, io=table.io)))


def run(table: DynamicTable, first: int = 0, rescales: bool = False) -> Iterator[int]:
    """One process: writes epochs from ``first`` on and yields each that Spark would count as done.

    With ``rescales`` the number of buckets changes before two of them.
    """
    committer = Committer(table, "w")
    register_writer(table, "w")
    for epoch in range(first, len(EPOCHS)):
        if rescales and epoch in (1, 3):
            rescale_to(table, 5 - epoch)
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
    scan = LogScan(table)
    ends, firsts = scan.reader.end_offsets(), scan.reader.first_offsets()
    found = newest(batch for place, start in firsts.items() for batch in scan.read(place, start, ends[place]))
    return {number: row["name"] for number, row in found.items()}


def files(table: DynamicTable) -> dict[int, str]:
    rows = Scan(table).to_arrow().to_pylist()
    assert len({r["id"] for r in rows}) == len(rows)
    return {r["id"]: r["name"] for r in rows}


def check(tmp_path, mode: str, form: str, plan: FaultPlan, places: str = "one bucket") -> None:
    """Runs the job as planned, with a restart after a death."""
    table, rescales = make_table(tmp_path, mode, form, places), places == "a rescale"
    dying = DynamicTable(replace(table.location, io=FaultyFileIO(table.io, plan)))
    done = -1
    try:
        for epoch in run(dying, rescales=rescales):
            done = epoch
    except Died:
        for epoch in run(table, done + 1, rescales):
            done = epoch
    assert done == len(EPOCHS) - 1
    assert files(table) == WANT, "files"
    assert fold(table) == WANT, "log"
    assert {r["id"]: r["name"] for r in union_scan(table).to_arrow().to_pylist()} == WANT, "union"


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


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("places", [name for name in PLACES if name != "one bucket"])
def test_buckets_that_are_no_log_partitions_lose_and_repeat_nothing(tmp_path, places, death, depth: Depth) -> None:
    whole = FaultPlan()
    check(tmp_path / "whole", "upsert", "debezium-json", whole, places)
    for call in depth.some(whole.calls):
        plan = FaultPlan({call.number: death})
        check(tmp_path / str(call.number), "upsert", "debezium-json", plan, places)
        assert plan.hit
