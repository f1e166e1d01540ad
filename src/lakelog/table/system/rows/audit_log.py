"""``$audit_log``: the rows with their kinds, deleted ones too; with ``incremental-between`` the changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from lakelog.filestore.read.changes import with_kind_names
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import STRING, DataField
from lakelog.table.read.base import TableScan, rows_of, without_kind
from lakelog.table.read.changes_scan import ChangesScan, changes_of_options
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.time_travel import as_of, travel_to

ROWKIND: Final = DataField(2147483643, "rowkind", STRING.with_nullable(False))


class AuditLog(TableScan):
    """A column ``rowkind`` before the table's columns. It lists a deleted key while the delete is in a file."""

    @property
    def row_schema(self) -> TableSchema:
        """``rowkind`` and the table's columns."""
        schema = self.source.table.schema
        return replace(schema, fields=(ROWKIND, *schema.fields))

    @property
    def source(self) -> Scan | ChangesScan:
        """The underlying read: the state or the changes that the options request."""
        plain = replace(self.table, view=None)
        changes = changes_of_options(plain, keeps_deletes=True)
        if changes is not None:
            return changes
        snapshot = travel_to(plain.store, plain.options)
        return Scan(plain if snapshot is None else as_of(plain, snapshot), snapshot=snapshot)

    def plan(self) -> Sequence[Any]:
        """The splits of the underlying read."""
        return self.source.where(without_kind(self.filter, ROWKIND.name)).plan()

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        return rows_of(self, lambda columns, own: self._kinds(split, columns, own), ROWKIND.name)

    def _kinds(self, split: Any, columns: Sequence[str], filter: Predicate | None) -> Iterator[pa.RecordBatch]:
        source = self.source
        if isinstance(source, ChangesScan):
            yield from source.select([*columns, ROW_KIND_COLUMN]).where(filter).read(split)
            return
        for batch in source.table.store.read_split(split, columns, filter, keeps_kinds=True):
            yield with_kind_names(batch, columns)
