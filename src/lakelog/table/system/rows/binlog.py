"""``$binlog``: the rows of ``$audit_log`` with each value in a list; an update is one row with old and new value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.read.changes import ChangeSplit, DiffSplit
from lakelog.merge.base import one_array
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import ArrayType
from lakelog.table.read.base import TableScan, chosen
from lakelog.table.system.rows.audit_log import ROWKIND, AuditLog


class Binlog(TableScan):
    """A column ``rowkind``, and each of the table's columns as a list of one or (for an update) two values."""

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
        """The rows of one split."""
        used = {ROWKIND.name, *self.schema.names, *(self.filter.columns if self.filter else ())}
        names = [n for n in self.row_schema.field_names if n in used]
        packs = isinstance(split, ChangeSplit)
        held: pa.Table | None = None
        for batch in self._log.select(names).read(split):
            rows = pa.Table.from_batches([batch])
            rows = rows if held is None else pa.concat_tables([held, rows])
            # the new values of an update may be in the next batch
            waits = packs and rows.column(ROWKIND.name)[-1].as_py() == "-U"
            held = rows.slice(rows.num_rows - 1) if waits else None
            ready = rows.slice(0, rows.num_rows - 1) if waits else rows
            if ready.num_rows:
                yield from chosen(packed(ready, packs), self.schema, self.filter)
        if held is not None:
            yield from chosen(packed(held, packs), self.schema, self.filter)


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
