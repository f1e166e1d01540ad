"""Every storage call of a streaming write: the process dies before and after it, starts again, both stores are
equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from lakelog.io.file_io import FileIO, FileStatus
from lakelog.lake.lake import CatalogTables
from lakelog.spec.schema import new_schema
from lakelog.spec.types import parse_type
from lakelog.table.committer import Committer, register_writer
from lakelog.table.create import create_table
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_scan import LogScan
from lakelog.table.log_state import state_at
from lakelog.table.maintenance import compact_where_needed
from lakelog.table.open import identifier_of
from lakelog.table.scan import Scan
from lakelog.table.seal import seal
from lakelog.table.task_writer import TaskWriter

EPOCHS = [
    [(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")],
    [(1, "a", "-U"), (1, "A", "+U"), (2, "b", "-D"), (4, "d", "+I")],
    [(3, "c", "-U"), (3, "C", "+U"), (2, "B", "+I")],
    [(4, "d", "-D"), (1, "A", "-U"), (1, "AA", "+U")],
]
WANT = {1: "AA", 2: "B", 3: "C"}
BIG = 1 << 30


class Died(BaseException):
    """The process is gone: no handler of the code under test may catch it."""


@dataclass
class Faults:
    """Counts the calls that change storage and dies at one of them."""

    at: int
    after: bool
    calls: int = 0


@dataclass(frozen=True)
class DyingIO(FileIO):
    """A storage whose user dies before or after the n-th change."""

    io: FileIO
    faults: Faults = field(compare=False)

    def _change(self, work):
        self.faults.calls += 1
        hit = self.faults.calls == self.faults.at
        if hit and not self.faults.after:
            raise Died
        result = work()
        if hit:
            raise Died
        return result

    def read(self, path: str) -> bytes:
        return self.io.read(path)

    def open_input(self, path: str) -> pa.NativeFile:
        return self.io.open_input(path)

    def write(self, path: str, data: bytes) -> None:
        self._change(lambda: self.io.write(path, data))

    def create(self, path: str, data: bytes) -> bool:
        return self._change(lambda: self.io.create(path, data))

    def open_output(self, path: str) -> pa.NativeFile:
        return self._change(lambda: self.io.open_output(path))

    def exists(self, path: str) -> bool:
        return self.io.exists(path)

    def size(self, path: str) -> int:
        return self.io.size(path)

    def list(self, directory: str) -> list[FileStatus]:
        return self.io.list(directory)

    def delete(self, path: str) -> None:
        self._change(lambda: self.io.delete(path))

    def delete_dir(self, directory: str) -> None:
        self._change(lambda: self.io.delete_dir(directory))

    def makedirs(self, directory: str) -> None:
        self.io.makedirs(directory)

    def absolute(self, path: str) -> str:
        return self.io.absolute(path)


def make_table(tmp_path, mode: str) -> DynamicTable:
    options = {
        "bucket": "1",
        "log-store.enabled": "true",
        "log.changelog-mode": mode,
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
        if epoch > sealed and table.staged.read("w", epoch) is None:
            ids, names, kinds = zip(*EPOCHS[epoch], strict=True)
            task = TaskWriter(table, "w", epoch, 0)
            task.write(pa.record_batch({"id": pa.array(ids, pa.int32()), "name": names, "_row_kind": kinds}))
            results.append(task.finish())
        committer.commit(epoch, results)
        if epoch % 2:
            seal(committer)
            compact_where_needed(table)
        yield epoch


def fold(table: DynamicTable) -> dict[int, str]:
    state: dict[int, str] = {}
    for chunk in LogScan(table).records("earliest"):
        for value in chunk["value"].to_pylist():
            if value is not None:
                change = json.loads(value)
                state.pop((change["before"] or change["after"])["id"], None)
                if change["after"] is not None:
                    state[change["after"]["id"]] = change["after"]["name"]
    return state


def files(table: DynamicTable) -> dict[int, str]:
    rows = Scan(table).to_arrow().to_pylist()
    assert len({r["id"] for r in rows}) == len(rows)
    return {r["id"]: r["name"] for r in rows}


def outcome(tmp_path, mode: str, at: int, after: bool) -> int:
    """Runs the job with one death and a restart; returns the number of changes that the first process made."""
    table = make_table(tmp_path, mode)
    faults = Faults(at, after)
    dying = DynamicTable(replace(table.location, io=DyingIO(table.io, faults)))
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
    return faults.calls


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_a_death_at_any_storage_call_loses_and_repeats_nothing(tmp_path, mode, after) -> None:
    total = outcome(tmp_path / "whole", mode, BIG, after)
    assert total > 20
    for at in range(1, total + 1):
        outcome(tmp_path / str(at), mode, at, after)
