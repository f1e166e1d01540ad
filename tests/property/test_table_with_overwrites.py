"""A table against a dict: writes, deletes, overwrites, waiting epochs, seals, compactions and restarts in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from stateful_table import PARTS, StatefulTable

from depth import DEPTH
from lakelog.table.log.scan import LogScan
from lakelog.table.read.file_scan import Scan
from lakelog.table.tail.subscribe import follow
from lakelog.table.write.table_writer import TableWriter

KINDS = {"+I": True, "-D": False}
ROWS = st.lists(st.tuples(PARTS, st.integers(0, 30), st.sampled_from(list(KINDS))), min_size=1, max_size=12)
SCHEMA = pa.schema([("p", pa.string()), ("id", pa.int32()), ("v", pa.int64()), ("_row_kind", pa.string())])


class Tables(StatefulTable):
    """One table and the dict of what it must hold."""

    log: Mapping[str, str] = {}
    drawn = ROWS
    numbers = st.lists(st.integers(0, 30), max_size=8)

    @initialize(bucket=st.sampled_from(["1", "3", "-1"]))
    def make(self, bucket: str) -> None:
        options = {
            "bucket": bucket,
            "dynamic-bucket.target-row-num": "5",
            "dynamic-bucket.initial-buckets": "2",
            "num-sorted-run.compaction-trigger": "3",
            **self.log,
        }
        self.create({"p": "STRING", "id": "INT", "v": "BIGINT"}, ("p", "id"), options)
        self.state: dict[tuple[str, int], int] = {}
        self.clock = 0

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

    def of_part(self, part: str, numbers: list[int]) -> list[tuple[str, int, str]]:
        return [(part, number, "+I") for number in numbers]

    def clear(self, wanted: Callable[[str], bool]) -> None:
        self.state = {key: value for key, value in self.state.items() if not wanted(key[0])}

    @rule(given=ROWS)
    def write(self, given: list[tuple[str, int, str]]) -> None:
        self.seal()  # without it, epochs that wait would be newer than this snapshot
        with TableWriter(self.table) as writer:
            writer.write(self.rows(given))

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
