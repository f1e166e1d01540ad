"""Rows that a compaction keeps beside the folded ones, in files of their own below its output level (format sheet 7).

A row that comes later may be older by ``sequence.field``, or bring a total back into its range. Without these rows the
result would depend on when the compaction ran: a deleted key would return, ``first_value`` would forget how old its
value is, and a total that did not fit would begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.compaction.planner import CompactionTask
from lakelog.filestore.compaction.record_expiry import RecordExpiry
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
    """The rows that one task keeps apart; None instead of it, if its table needs none.

    ``shows`` is true if the folded rows are seen alone: they become whole values, or rows of the changelog. Then only
    the ``parts`` of totals stay, on level 0, which is always merged.
    """

    schema: TableSchema
    task: CompactionTask
    parts_deletes: bool
    shows: bool
    rows: RowsApart = field(init=False)
    parts: RowsApart = field(init=False)

    def __post_init__(self) -> None:
        self.rows, self.parts = RowsApart(self.schema), RowsApart(self.schema)

    @staticmethod
    def of(schema: TableSchema, task: CompactionTask) -> KeptApart | None:
        """The rows of a task."""
        if not schema.is_keyed:
            return None
        looks_up, engine = needs_lookup(Options(schema.options)), engine_of(schema)
        has_place = not looks_up or task.output_level > 1
        parts_deletes = task.drop_deletes and engine.keeps_deleted_keys and has_place
        shows = looks_up or producer_of(schema) == "full-compaction"
        return KeptApart(schema, task, parts_deletes, shows) if parts_deletes or engine.folds_apart else None

    def engine(self, inner: MergeEngine) -> MergeEngine:
        """An engine that folds as ``inner`` and puts rows apart."""
        return _Apart(inner, self)

    def write(self, writer: DataFileWriter, expiry: RecordExpiry | None) -> Iterator[DataFileMeta]:
        """Writes the rows that have not expired below the level of ``writer``, the first ones highest."""
        try:
            below = self.task.output_level - 1
            runs = [(max(below - number, 0), rows) for number, rows in enumerate(self.rows.sorted_batches())]
            for level, rows in (*runs, *((0, rows) for rows in self.parts.sorted_batches())):
                names = FileNames(new_uuid() + APART)
                place = (writer.io, writer.paths, writer.partition, writer.bucket, level, COMPACT_SOURCE)
                young = rows if expiry is None else map(expiry.kept, rows)
                yield from DataFileWriter(*place, names=names).write(young)
        finally:
            self.rows.close()
            self.parts.close()


class _Apart(MergeEngine):
    def __init__(self, inner: MergeEngine, kept: KeptApart) -> None:
        super().__init__(inner.schema)
        self._inner, self._kept = inner, kept

    def fold(self, piece: Piece) -> pa.Table:
        whole, *others = (self._inner.fold_whole if self._kept.shows else self._inner.fold_apart)(piece)
        if self._kept.shows:
            self._kept.parts.add(others)
            others = []
        if not self._kept.parts_deletes:
            self._kept.rows.add(others)
            return whole
        kinds = whole.column(KIND_COLUMN)
        deletes = whole.filter(pc.or_(pc.equal(kinds, DELETE), pc.equal(kinds, UPDATE_BEFORE)))
        self._kept.rows.add([deletes, *others])
        return live_rows(whole)
