"""``$ro``: the rows of fully compacted files, which a read need not merge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakelog.filestore.metadata.levels import highest_level
from lakelog.filestore.read.plan import Split
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.read.base import TableScan
from lakelog.table.read.time_travel import as_of, travel_to


class ReadOptimized(TableScan):
    """Rows of the highest level; all rows of a table without a primary key."""

    @property
    def row_schema(self) -> TableSchema:
        """The table's columns as of the snapshot that the options select."""
        snapshot = self._travelled
        return self.table.schema if snapshot is None else as_of(self.table, snapshot).schema

    @property
    def _travelled(self) -> Snapshot | None:
        return travel_to(self.table.store, self.table.options)

    @property
    def _store(self) -> Any:
        return self.table.with_schema(self.row_schema).store

    def plan(self) -> list[Split]:
        """The files of the highest level."""
        schema = self.row_schema
        lowest = highest_level(schema) if schema.is_keyed else 0
        return list(self._store.plan(self._travelled, self.filter, lowest_level=lowest))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        yield from self._store.read_split(split, self.columns, self.filter)
