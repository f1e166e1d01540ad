"""A table against a dict: writes, deletes, overwrites, waiting epochs, seals, compactions and restarts in any order."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from depth import DEPTH
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.create import create_table
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.compaction_job import compact_table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.partition_selection import overwrite_target
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.tail.subscribe import follow
from lakelog.table.write.overwrite import OverwriteWriter, drop_partitions, truncate
from lakelog.table.write.table_writer import TableWriter

KINDS = {"+I": True, "-D": False}
PARTS = st.sampled_from(["a", "b/=", "c"])
ROWS = st.lists(st.tuples(PARTS, st.integers(0, 30), st.sampled_from(list(KINDS))), min_size=1, max_size=12)
SCHEMA = pa.schema([("p", pa.string()), ("id", pa.int32()), ("v", pa.int64()), ("_row_kind", pa.string())])


class Tables(RuleBasedStateMachine):
    """One table and the dict of what it must hold."""

    log: Mapping[str, str] = {}

    @initialize(bucket=st.sampled_from(["1", "3", "-1"]))
    def make(self, bucket: str) -> None:
        catalog = FilesystemCatalog("/w", MemoryFileIO(new_uuid()))
        catalog.create_database("db")
        fields = [("p", parse_type("STRING"), None), ("id", parse_type("INT"), None), ("v", parse_type("BIGINT"), None)]
        options = {
            "bucket": bucket,
            "dynamic-bucket.target-row-num": "5",
            "dynamic-bucket.initial-buckets": "2",
            "num-sorted-run.compaction-trigger": "3",
            **self.log,
        }
        schema = new_schema(fields, ("p", "id"), ("p",), options)
        self.table = DynamicTable(create_table(catalog, Identifier("db", "t"), schema))
        self.state: dict[tuple[str, int], int] = {}
        self.clock = 0
        self.epoch = 0
        self.committer = Committer(self.table, "stream")

    def rows(self, given: list[tuple[str, int, str]]) -> pa.Table:
        """The rows as Arrow, each with a new value; the dict follows."""
        out = []
        for p, number, kind in given:
            self.clock += 1
            out.append({"p": p, "id": number, "v": self.clock, "_row_kind": kind})
            if KINDS[kind]:
                self.state[p, number] = self.clock
            else:
                self.state.pop((p, number), None)
        return pa.Table.from_pylist(out, SCHEMA)

    def clear(self, wanted) -> None:
        """The dict without the keys of some partitions."""
        self.state = {key: value for key, value in self.state.items() if not wanted(key[0])}

    @rule(given=ROWS)
    def write(self, given: list[tuple[str, int, str]]) -> None:
        self.seal()  # without it, epochs that wait would be newer than this snapshot
        with TableWriter(self.table) as writer:
            writer.write(self.rows(given))

    @rule(given=ROWS)
    def stage(self, given: list[tuple[str, int, str]]) -> None:
        task = TaskWriter(self.table, "stream", self.epoch, 0)
        for batch in self.rows(given).to_batches():
            task.write(batch)
        self.committer.commit(self.epoch, [task.finish()])
        self.epoch += 1

    @rule()
    def seal(self) -> None:
        seal(self.committer)

    @rule()
    def restart(self) -> None:
        self.table = DynamicTable(self.table.location)
        self.committer = Committer(self.table, "stream")
        if self.epoch:
            self.committer.commit(self.epoch, [])
            self.epoch += 1

    @rule(given=ROWS)
    def overwrite_what_the_rows_have(self, given: list[tuple[str, int, str]]) -> None:
        self.clear(lambda p: p in {row[0] for row in given})
        with OverwriteWriter(self.table, overwrite_target(self.table)) as writer:
            writer.write(self.rows(given))

    @rule(part=PARTS, given=st.lists(st.integers(0, 30), max_size=8))
    def overwrite_one(self, part: str, given: list[int]) -> None:
        self.clear(lambda p: p == part)
        with OverwriteWriter(self.table, overwrite_target(self.table, {"p": part})) as writer:
            writer.write(self.rows([(part, number, "+I") for number in given]))

    @rule(given=ROWS)
    def overwrite_all(self, given: list[tuple[str, int, str]]) -> None:
        self.state.clear()
        whole = self.table.with_hints({"dynamic-partition-overwrite": "false"})
        with OverwriteWriter(whole, overwrite_target(whole)) as writer:
            writer.write(self.rows(given))

    @rule(part=PARTS)
    def drop(self, part: str) -> None:
        self.clear(lambda p: p == part)
        drop_partitions(self.table, [{"p": part}], if_exists=True)

    @rule()
    def empty(self) -> None:
        self.state.clear()
        truncate(self.table)

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        compact_table(self.table, full)

    @invariant()
    def reads_as_the_dict(self) -> None:
        found = Scan(self.table).to_arrow().to_pylist()
        assert len({(r["p"], r["id"]) for r in found}) == len(found)
        assert {(r["p"], r["id"]): r["v"] for r in found} == self.state


class TablesWithLog(Tables):
    """The same with a log of input rows, whose reader ends with the same rows."""

    log = {"log-store.enabled": "true", "log-store.type": "files", "log.content": "input"}

    @invariant()
    def folds_to_the_dict(self) -> None:
        found: dict[tuple[str, int], int] = {}
        for batch in follow(LogScan(self.table), "earliest", "latest"):
            for row in batch.to_pylist():
                key = (row["p"], row["id"])
                found.pop(key, None)
                if row["_row_kind"] in ("+I", "+U"):
                    found[key] = row["v"]
        assert found == self.state


Tables.TestCase.settings = settings(max_examples=DEPTH.cases(25), stateful_step_count=15, deadline=None)
TablesWithLog.TestCase.settings = settings(max_examples=DEPTH.cases(15), stateful_step_count=12, deadline=None)
TestTables = Tables.TestCase
TestTablesWithLog = TablesWithLog.TestCase
