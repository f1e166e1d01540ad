"""The statements that a table with and one without a key have in common, for tests against a model in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

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
from lakelog.table.maintenance.compaction_job import compact_table
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.partition_selection import overwrite_target
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.overwrite import OverwriteWriter, drop_partitions, truncate

PARTS = st.sampled_from(["a", "b/=", "c"])


class StatefulTable(RuleBasedStateMachine):
    """One table with the partition column ``p``, and the model of what it must hold.

    ``drawn`` draws some rows, each a tuple that begins with its partition; ``numbers`` draws numbers for ``of_part``.
    """

    drawn: st.SearchStrategy[list[Any]]
    numbers: st.SearchStrategy[list[int]]

    def rows(self, given: list[Any]) -> pa.Table:
        """The rows as Arrow; the model gets them."""
        raise NotImplementedError

    def of_part(self, part: str, numbers: list[int]) -> list[Any]:
        """Rows of one partition, as ``drawn`` draws them."""
        raise NotImplementedError

    def clear(self, wanted: Callable[[str], bool]) -> None:
        """Removes the rows of some partitions from the model."""
        raise NotImplementedError

    def create(self, columns: Mapping[str, str], keys: tuple[str, ...], options: Mapping[str, str]) -> None:
        """Creates the table, and the streaming writer of it."""
        catalog = FilesystemCatalog("/w", MemoryFileIO(new_uuid()))
        catalog.create_database("db")
        fields = [(name, parse_type(kind), None) for name, kind in columns.items()]
        schema = new_schema(fields, keys, ("p",), dict(options))
        self.table = DynamicTable(create_table(catalog, Identifier("db", "t"), schema))
        self.epoch = 0
        self.committer = Committer(self.table, "stream")

    @rule(given=st.runner().flatmap(lambda made: made.drawn))
    def stage(self, given: list[Any]) -> None:
        register_writer(self.table, "stream")
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

    @rule(given=st.runner().flatmap(lambda made: made.drawn))
    def overwrite_what_the_rows_have(self, given: list[Any]) -> None:
        self.clear(lambda p: p in {row[0] for row in given})
        with OverwriteWriter(self.table, overwrite_target(self.table)) as writer:
            writer.write(self.rows(given))

    @rule(part=PARTS, given=st.runner().flatmap(lambda made: made.numbers))
    def overwrite_one(self, part: str, given: list[int]) -> None:
        self.clear(lambda p: p == part)
        with OverwriteWriter(self.table, overwrite_target(self.table, {"p": part})) as writer:
            writer.write(self.rows(self.of_part(part, given)))

    @rule(given=st.runner().flatmap(lambda made: made.drawn))
    def overwrite_all(self, given: list[Any]) -> None:
        self.clear(lambda _: True)
        whole = self.table.with_hints({"dynamic-partition-overwrite": "false"})
        with OverwriteWriter(whole, overwrite_target(whole)) as writer:
            writer.write(self.rows(given))

    @rule(part=PARTS)
    def drop(self, part: str) -> None:
        self.clear(lambda p: p == part)
        drop_partitions(self.table, [{"p": part}], if_exists=True)

    @rule()
    def empty(self) -> None:
        self.clear(lambda _: True)
        truncate(self.table)

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        compact_table(self.table, full)
