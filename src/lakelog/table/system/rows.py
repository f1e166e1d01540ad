"""System tables that read the rows of the table in another form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.metadata.levels import highest_level
from lakelog.filestore.read.changes import ChangeSplit, DiffSplit, with_kind_names
from lakelog.filestore.read.plan import Split
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.merge.base import one_array
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import STRING, ArrayType, DataField
from lakelog.table.read.base import TableScan, chosen, rows_of, without_kind
from lakelog.table.read.changes_scan import ChangesScan, changes_of_options
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.time_travel import as_of, travel_to

ROWKIND: Final = DataField(2147483643, "rowkind", STRING.with_nullable(False))


class AuditLog(TableScan):
    """The rows with their kinds; with ``incremental-between`` the changes.

    A deleted key is listed while the delete is in a file."""

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
        return rows_of(self, lambda columns, raw: self._kinds(split, columns, raw), ROWKIND.name)

    def _kinds(self, split: Any, columns: Sequence[str], filter: Predicate | None) -> Iterator[pa.RecordBatch]:
        source = self.source
        if isinstance(source, ChangesScan):
            yield from source.select([*columns, ROW_KIND_COLUMN]).where(filter).read(split)
            return
        for batch in source.table.store.read_split(split, columns, filter, keeps_kinds=True):
            yield with_kind_names(batch, columns)


class Binlog(TableScan):
    """The rows of ``$audit_log`` with each value in a list; an update has the old and the new value."""

    @property
    def row_schema(self) -> TableSchema:
        """``rowkind`` and lists of the table's columns."""
        fields = self._log.row_schema.fields[1:]
        lists = (replace(f, type=ArrayType(f.type.with_nullable(True))) for f in fields)
        return replace(self.table.schema, fields=(ROWKIND, *lists))

    @property
    def _log(self) -> AuditLog:
        return AuditLog(self.table)

    def plan(self) -> Sequence[Any]:
        """The splits of ``$audit_log``. Raises UnsupportedFeature for the comparison of two states."""
        splits = self._log.plan()
        if any(isinstance(split, DiffSplit) for split in splits):
            raise UnsupportedFeature(
                "$binlog does not support the comparison of two snapshots: read $audit_log, or the modes delta or "
                "changelog"
            )
        return splits

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        used = {ROWKIND.name, *self.schema.names, *(self.filter.columns if self.filter else ())}
        names = [n for n in self.row_schema.field_names if n in used]
        packs = isinstance(split, ChangeSplit)
        waiting: pa.Table | None = None
        for batch in self._log.select(names).read(split):
            rows = pa.Table.from_batches([batch])
            rows = rows if waiting is None else pa.concat_tables([waiting, rows])
            # the new values of an update may be in the next batch
            waits = packs and rows.column(ROWKIND.name)[-1].as_py() == "-U"
            waiting = rows.slice(rows.num_rows - 1) if waits else None
            ready = rows.slice(0, rows.num_rows - 1) if waits else rows
            if ready.num_rows:
                yield from chosen(packed(ready, packs), self.schema, self.filter)
        if waiting is not None:
            yield from chosen(packed(waiting, packs), self.schema, self.filter)


def packed(rows: pa.Table, packs: bool) -> pa.Table:
    """The rows with values in lists; with ``packs`` a -U and the +U after it become one row of kind +U."""
    kinds = rows.column(ROWKIND.name).to_numpy()
    follows = np.zeros(len(kinds), dtype=np.bool_)
    if packs:
        follows[1:] = (kinds[1:] == "+U") & (kinds[:-1] == "-U")
    offsets = np.append(np.flatnonzero(~follows), len(kinds)).astype(np.int32)
    last = pa.array(offsets[1:] - 1)
    arrays = [
        one_array(column).take(last)
        if name == ROWKIND.name
        else pa.ListArray.from_arrays(pa.array(offsets), one_array(column))
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    return pa.table(arrays, rows.column_names)


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
        yield from self._store.read_split(split, self.columns, self.filter)
