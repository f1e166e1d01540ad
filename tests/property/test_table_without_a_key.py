"""A table without a key, with a log of input rows, against a multiset: all statements in any order, with restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from stateful_table import PARTS, StatefulTable

from depth import DEPTH
from lakelog.io.names import new_uuid
from lakelog.table.log.scan import LogScan
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.tail.subscribe import follow
from lakelog.table.write.replace_files import commit_rewrite, files_to_rewrite
from lakelog.table.write.replaced_rows import files_alone
from lakelog.table.write.table_writer import TableWriter

ROWS = st.lists(st.tuples(PARTS, st.integers(0, 5)), min_size=1, max_size=8)
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int32())])
BUCKETS = {"one": {"bucket": "-1"}, "by v": {"bucket": "2", "bucket-key": "v"}}


class TablesWithoutKey(StatefulTable):
    """One table, and the multiset of the rows that it must hold."""

    drawn = ROWS
    numbers = st.lists(st.integers(0, 5), max_size=8)

    @initialize(
        buckets=st.sampled_from(list(BUCKETS)),
        partitions=st.sampled_from([None, "2", "3"]),
        form=st.sampled_from(["arrow", "debezium-json"]),
    )
    def make(self, buckets: str, partitions: str | None, form: str) -> None:
        options = {
            **BUCKETS[buckets],
            "log-store.enabled": "true",
            "log-store.type": "files",
            "log-store.data-format": form,
            "compaction.min.file-num": "3",
            **({} if partitions is None or buckets == "one" else {"log-store.partitions": partitions}),
        }
        self.create({"p": "STRING", "v": "INT"}, (), options)
        self.state: Counter[tuple[str, int]] = Counter()

    def rows(self, given: list[tuple[str, int]]) -> pa.Table:
        self.state.update(given)
        return pa.Table.from_pylist([{"p": p, "v": v} for p, v in given], SCHEMA)

    def of_part(self, part: str, numbers: list[int]) -> list[tuple[str, int]]:
        return [(part, number) for number in numbers]

    def clear(self, wanted: Callable[[str], bool]) -> None:
        self.state = Counter({row: n for row, n in self.state.items() if not wanted(row[0])})

    @rule(given=ROWS)
    def write(self, given: list[tuple[str, int]]) -> None:
        with TableWriter(self.table) as writer:
            writer.write(self.rows(given))

    @rule(given=ROWS)
    def give_up(self, given: list[tuple[str, int]]) -> None:
        with TableWriter(self.table) as writer:
            writer.write(pa.Table.from_pylist([{"p": p, "v": v} for p, v in given], SCHEMA))
            writer.abort()

    @rule(low=st.integers(0, 5), by=st.integers(0, 3))
    def update(self, low: int, by: int) -> None:
        changed = Counter[tuple[str, int]]()
        for (p, v), n in self.state.items():
            changed[p, v + by if v < low else v] += n
        self._rewrite(changed)

    @rule(below=st.integers(0, 5))
    def delete(self, below: int) -> None:
        self._rewrite(Counter({row: n for row, n in self.state.items() if row[1] >= below}))

    def _rewrite(self, after: Counter[tuple[str, int]]) -> None:
        names = files_to_rewrite(self.table)
        task = TaskWriter(files_alone(self.table), "w", 0, 0, replaces=True)
        rows = [{"p": p, "v": v} for p, v in after.elements()]
        for batch in pa.Table.from_pylist(rows, SCHEMA).to_batches():
            task.write(batch)
        commit_rewrite(self.table, new_uuid(), [task.finish()], names)
        self.state = after

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
        assert found == self.state
        assert self.folded() == self.state
        assert self.folded("latest-full") == self.state

    @invariant()
    def all_committed_readers_have_the_same(self) -> None:
        committed = {"log.consistency": "transactional"}
        assert self.folded(**committed) == self.folded("latest-full", **committed)


TablesWithoutKey.TestCase.settings = settings(max_examples=DEPTH.cases(15), stateful_step_count=12, deadline=None)
TestTablesWithoutKey = TablesWithoutKey.TestCase
