"""Rows that a compaction keeps beside the folded ones, in files of their own below its output level (format sheet 7).

A row that comes later may be older by ``sequence.field``. Without these rows the result would depend on when the
compaction ran: a deleted key would return, and ``first_value`` would forget how old its value is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.compaction.planner import CompactionTask
from lakelog.filestore.metadata.levels import APART
from lakelog.filestore.read.changes import producer_of
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.write.data_file_writer import DataFileWriter, FileNames
from lakelog.filestore.write.memtable import RowsApart
from lakelog.io.names import new_uuid
from lakelog.merge.base import KIND_COLUMN, MergeEngine, Piece
from lakelog.merge.output import live_rows
from lakelog.merge.table_rules import needs_lookup
from lakelog.options.option import Options
from lakelog.paimon.metadata.data_file import COMPACT_SOURCE, DataFileMeta
from lakelog.paimon.rows.row_kind import DELETE, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema


@dataclass
class KeptApart:
    """The rows that one task keeps apart; None instead of it, if its table or output level needs none."""

    schema: TableSchema
    task: CompactionTask
    parts_deletes: bool
    folds: bool
    rows: RowsApart = field(init=False)

    def __post_init__(self) -> None:
        self.rows = RowsApart(self.schema)

    @staticmethod
    def of(schema: TableSchema, task: CompactionTask) -> KeptApart | None:
        """The rows of a task."""
        if not schema.is_keyed:
            return None
        looks_up = needs_lookup(Options(schema.options))
        if looks_up and task.output_level < 2:
            return None
        engine = engine_of(schema)
        parts_deletes = task.drop_deletes and engine.keeps_deleted_keys
        folds = engine.folds_apart and not looks_up and producer_of(schema) != "full-compaction"
        return KeptApart(schema, task, parts_deletes, folds) if parts_deletes or folds else None

    def engine(self, inner: MergeEngine) -> MergeEngine:
        """An engine that folds as ``inner`` and puts rows apart."""
        return _Apart(inner, self)

    def write(self, writer: DataFileWriter) -> Iterator[DataFileMeta]:
        """Writes the rows below the level of ``writer``, the first ones highest."""
        try:
            for number, rows in enumerate(self.rows.sorted_batches()):
                level = max(self.task.output_level - 1 - number, 0)
                names = FileNames(new_uuid() + APART)
                place = (writer.io, writer.paths, writer.partition, writer.bucket, level, COMPACT_SOURCE)
                yield from DataFileWriter(*place, names=names).write(rows)
        finally:
            self.rows.close()


class _Apart(MergeEngine):
    def __init__(self, inner: MergeEngine, kept: KeptApart) -> None:
        super().__init__(inner.schema)
        self._inner, self._kept = inner, kept

    def fold(self, piece: Piece) -> pa.Table:
        whole, *others = self._inner.fold_apart(piece) if self._kept.folds else [self._inner.fold(piece)]
        if not self._kept.parts_deletes:
            self._kept.rows.add(others)
            return whole
        kinds = whole.column(KIND_COLUMN)
        deletes = whole.filter(pc.or_(pc.equal(kinds, DELETE), pc.equal(kinds, UPDATE_BEFORE)))
        self._kept.rows.add([deletes, *others])
        return live_rows(whole)
