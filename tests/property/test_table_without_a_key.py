"""A table without a key, with a log of input rows, against a multiset: all statements in any order, with restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

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
from lakelog.table.log.register import register_writer
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.compaction_job import compact_table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.partition_selection import overwrite_target
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.tail.subscribe import follow
from lakelog.table.write.overwrite import OverwriteWriter, drop_partitions, truncate
from lakelog.table.write.replace_files import commit_rewrite, files_to_rewrite
from lakelog.table.write.replaced_rows import files_alone
from lakelog.table.write.table_writer import TableWriter

PARTS = st.sampled_from(["a", "b/=", "c"])
ROWS = st.lists(st.tuples(PARTS, st.integers(0, 5)), min_size=1, max_size=8)
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int32())])
BUCKETS = {"one": {"bucket": "-1"}, "by v": {"bucket": "2", "bucket-key": "v"}}


class TablesWithoutKey(RuleBasedStateMachine):
    """One table, and the multiset of the rows that it must hold."""

    @initialize(
        buckets=st.sampled_from(list(BUCKETS)),
        partitions=st.sampled_from([None, "2", "3"]),
        form=st.sampled_from(["arrow", "debezium-json"]),
    )
    def make(self, buckets: str, partitions: str | None, form: str) -> None:
        catalog = FilesystemCatalog("/w", MemoryFileIO(new_uuid()))
        catalog.create_database("db")
        fields = [("p", parse_type("STRING"), None), ("v", parse_type("INT"), None)]
        options = {
            **BUCKETS[buckets],
            "log-store.enabled": "true",
            "log-store.type": "files",
            "log-store.data-format": form,
            "compaction.min.file-num": "3",
            **({} if partitions is None or buckets == "one" else {"log-store.partitions": partitions}),
        }
        self.table = DynamicTable(create_table(catalog, Identifier("db", "t"), new_schema(fields, (), ("p",), options)))
        self.rows: Counter[tuple[str, int]] = Counter()
        self.epoch = 0
        self.committer = Committer(self.table, "stream")

    def taken(self, given: list[tuple[str, int]]) -> pa.Table:
        """The rows as Arrow; the multiset gets them."""
        self.rows.update(given)
        return pa.Table.from_pylist([{"p": p, "v": v} for p, v in given], SCHEMA)

    def clear(self, wanted: Callable[[str], bool]) -> None:
        """Removes the rows of some partitions from the multiset."""
        self.rows = Counter({row: n for row, n in self.rows.items() if not wanted(row[0])})

    @rule(given=ROWS)
    def write(self, given: list[tuple[str, int]]) -> None:
        with TableWriter(self.table) as writer:
            writer.write(self.taken(given))

    @rule(given=ROWS)
    def give_up(self, given: list[tuple[str, int]]) -> None:
        with TableWriter(self.table) as writer:
            writer.write(pa.Table.from_pylist([{"p": p, "v": v} for p, v in given], SCHEMA))
            writer.abort()

    @rule(given=ROWS)
    def stage(self, given: list[tuple[str, int]]) -> None:
        register_writer(self.table, "stream")
        task = TaskWriter(self.table, "stream", self.epoch, 0)
        for batch in self.taken(given).to_batches():
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
    def overwrite_what_the_rows_have(self, given: list[tuple[str, int]]) -> None:
        self.clear(lambda p: p in {row[0] for row in given})
        with OverwriteWriter(self.table, overwrite_target(self.table)) as writer:
            writer.write(self.taken(given))

    @rule(part=PARTS, given=st.lists(st.integers(0, 5), max_size=8))
    def overwrite_one(self, part: str, given: list[int]) -> None:
        self.clear(lambda p: p == part)
        with OverwriteWriter(self.table, overwrite_target(self.table, {"p": part})) as writer:
            writer.write(self.taken([(part, v) for v in given]))

    @rule(low=st.integers(0, 5), by=st.integers(0, 3))
    def update(self, low: int, by: int) -> None:
        changed = Counter[tuple[str, int]]()
        for (p, v), n in self.rows.items():
            changed[p, v + by if v < low else v] += n
        self._rewrite(changed)

    @rule(below=st.integers(0, 5))
    def delete(self, below: int) -> None:
        self._rewrite(Counter({row: n for row, n in self.rows.items() if row[1] >= below}))

    def _rewrite(self, after: Counter[tuple[str, int]]) -> None:
        names = files_to_rewrite(self.table)
        task = TaskWriter(files_alone(self.table), "w", 0, 0, replaces=True)
        rows = [{"p": p, "v": v} for p, v in after.elements()]
        for batch in pa.Table.from_pylist(rows, SCHEMA).to_batches():
            task.write(batch)
        commit_rewrite(self.table, new_uuid(), [task.finish()], names)
        self.rows = after

    @rule(part=PARTS)
    def drop(self, part: str) -> None:
        self.clear(lambda p: p == part)
        drop_partitions(self.table, [{"p": part}], if_exists=True)

    @rule()
    def empty(self) -> None:
        self.rows.clear()
        truncate(self.table)

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        compact_table(self.table, full)

    def folded(self, start: str = "earliest", **options: str) -> Counter[tuple[str, int]]:
        """The rows that a reader of the log has at its end."""
        found: Counter[tuple[str, int]] = Counter()
        for batch in follow(LogScan(self.table.with_hints(options)), start, "latest"):
            for row in batch.to_pylist():
                found[row["p"], row["v"]] += 1 if row["_row_kind"] in ("+I", "+U") else -1
        assert not any(n < 0 for n in found.values())
        return +found

    @invariant()
    def reads_as_the_multiset(self) -> None:
        found = Counter((r["p"], r["v"]) for r in Scan(self.table).to_arrow().to_pylist())
        assert found == self.rows
        assert self.folded() == self.rows
        assert self.folded("latest-full") == self.rows

    @invariant()
    def all_committed_readers_have_the_same(self) -> None:
        committed = {"log.consistency": "transactional"}
        assert self.folded(**committed) == self.folded("latest-full", **committed)


TablesWithoutKey.TestCase.settings = settings(max_examples=DEPTH.cases(15), stateful_step_count=12, deadline=None)
TestTablesWithoutKey = TablesWithoutKey.TestCase
