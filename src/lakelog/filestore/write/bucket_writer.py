"""Writes the new rows of one bucket as level-0 files, and their changes as changelog files (producer ``input``)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.filestore.read.changes import producer_of
from lakelog.filestore.read.data_file_reader import row_schema
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.write.changelog_writer import changelog_writer, copied_changelog
from lakelog.filestore.write.data_file_writer import DataFileWriter, FileNames
from lakelog.filestore.write.memtable import Memtable, RowsApart
from lakelog.io.storage.file_io import FileIO
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN, KeepAll, MergeEngine, Piece
from lakelog.merge.runs import merge_runs
from lakelog.options.option import Options
from lakelog.options.table import IGNORE_DELETE, ROWKIND_FIELD, WRITE_BUFFER_SIZE
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER, kinds_from_text


class BucketWriter:
    """A writer of one bucket: ``write`` many times, then ``finish`` once (or ``close`` after a failure).

    Rows of keyed tables are sorted and folded to one row per key in a memtable of ``write-buffer-size``; rows of append
    tables keep their order. Rows without sequence numbers get the next ones, from ``first_sequence``.

    With changelog producer ``input`` and ``emits_changelog``, every row is also written to a changelog file, sorted by
    key, then age. Overwrites write no changelog. With ``refuses_overflow``, a sum of the rows that does not fit its
    column raises InvalidSchema.
    """

    def __init__(
        self,
        io: FileIO,
        paths: TablePaths,
        partition: bytes,
        bucket: int,
        first_sequence: int = 0,
        emits_changelog: bool = True,
        names: FileNames | None = None,
        refuses_overflow: bool = True,
    ) -> None:
        self._schema = paths.schema
        self._files = DataFileWriter(io, paths, partition, bucket, names=names or FileNames())
        self._next = first_sequence
        self._target = row_schema(self._schema, self._schema.field_names, True)
        options = Options(self._schema.options)
        self._ignore_delete = options.need(IGNORE_DELETE)
        self._kind_field = options.get_typed(ROWKIND_FIELD)
        limit = int(options.need(WRITE_BUFFER_SIZE))
        self._engine = engine_of(self._schema)
        self._engine.refuses_overflow = refuses_overflow
        self._emits_changelog = emits_changelog and self._schema.is_keyed and producer_of(self._schema) == "input"
        self._apart = RowsApart(self._schema)
        if self._engine.folds_apart:
            self._engine = _NewRows(self._engine, self._apart)
        # an append table has no key to sort by, so its rows are written in order
        engine = KeepAll(self._schema) if self._emits_changelog else self._engine
        self._memtable = Memtable(self._schema.trimmed_primary_keys, engine, limit)
        self._appended: list[pa.Table] = []
        self._appended_bytes = 0
        self._limit = limit
        self._written: list[DataFileMeta] = []
        self._changelog_written: list[DataFileMeta] = []
        self._row_count = 0

    def write(
        self,
        rows: pa.Table,
        kinds: pa.Array | pa.ChunkedArray | None = None,
        sequences: pa.Array | pa.ChunkedArray | None = None,
    ) -> None:
        """Adds rows with all table columns by name.

        ``kinds`` are row kinds as numbers (int8; None: all +I; a column ``rowkind.field`` takes precedence),
        ``sequences`` their sequence numbers (int64; None: the next ones). Raises InvalidSchema for a missing column, a
        wrong type, an unknown row kind, or a delete in an append table.
        """
        if rows.num_rows == 0:
            return
        if self._kind_field is not None:
            kinds = kinds_from_text(rows.column(self._kind_field), self._kind_field)
        if kinds is None:
            kinds = pa.array(np.full(rows.num_rows, INSERT, dtype=np.int8))
        if sequences is None:
            sequences = pa.array(np.arange(self._next, self._next + rows.num_rows, dtype=np.int64))
        self._next = max(self._next, pc.max(sequences).as_py() + 1)
        table = self._with_system_columns(rows, kinds, sequences)
        if self._ignore_delete:
            table = table.filter(_is_row(kinds))
        self._row_count += table.num_rows
        if self._schema.is_keyed:
            self._memtable.add(table)
        else:
            self._append(table)

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Writes the buffered rows and returns the metadata of all files, in key order; empty without rows."""
        try:
            self._written += self._files.write(self._rows())
            for rows in self._apart.sorted_batches():
                self._written += self._files.write(rows)
            if self._emits_changelog:
                self._changelog_written += self._changelog()
            return tuple(self._written)
        finally:
            self.close()

    @property
    def changelog_files(self) -> tuple[DataFileMeta, ...]:
        """The metadata of the changelog files that ``finish`` wrote, in key order."""
        return tuple(self._changelog_written)

    def close(self) -> None:
        """Discards the unwritten rows."""
        self._memtable.close()
        self._apart.close()
        self._appended.clear()

    def _rows(self) -> Iterator[pa.RecordBatch]:
        if self._schema.is_keyed:
            rows = self._memtable.sorted_batches()
            yield from (
                merge_runs([rows], self._schema.trimmed_primary_keys, self._engine) if self._emits_changelog else rows
            )
        for table in self._appended:
            yield from table.to_batches()

    def _changelog(self) -> list[DataFileMeta]:
        is_same = sum(file.row_count for file in self._written) == self._row_count
        copies = copied_changelog(self._files, self._written) if is_same else None
        return changelog_writer(self._files).write(self._memtable.sorted_batches()) if copies is None else copies

    def _append(self, rows: pa.Table) -> None:
        if not pc.all(_is_row(rows.column(KIND_COLUMN))).as_py():
            raise InvalidSchema(
                "a table without a primary key does not accept rows of kind -U or -D: declare a primary key, or set "
                "'ignore-delete' = 'true'"
            )
        self._appended.append(rows)
        self._appended_bytes += rows.nbytes
        if self._appended_bytes > self._limit:
            self._written += self._files.write(self._rows())
            self._appended.clear()
            self._appended_bytes = 0

    def _with_system_columns(self, rows: pa.Table, kinds: pa.Array, sequences: pa.Array) -> pa.Table:
        columns = []
        for field in self._schema.fields:
            index = rows.schema.get_field_index(field.name)
            if index < 0:
                raise InvalidSchema(f"rows have no column '{field.name}': they have {', '.join(rows.column_names)}")
            columns.append(rows.column(index))
        for name, values in ((SEQUENCE_COLUMN, sequences), (KIND_COLUMN, kinds)):
            if len(values) != rows.num_rows:
                raise InvalidSchema(f"{len(values)} values of {name} for {rows.num_rows} rows")
        try:
            arrays = [
                column if column.type == target.type else column.cast(target.type)
                for column, target in zip((*columns, sequences, kinds), self._target, strict=True)
            ]
            return pa.Table.from_arrays(arrays, schema=self._target)
        except pa.ArrowInvalid as why:
            raise InvalidSchema(f"rows do not fit the columns of the table: {why}") from None


def _is_row(kinds: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.or_(pc.equal(kinds, INSERT), pc.equal(kinds, UPDATE_AFTER))


class _NewRows(MergeEngine):
    """Folds as another engine, and keeps the rows that it puts beside the folded ones."""

    def __init__(self, inner: MergeEngine, apart: RowsApart) -> None:
        super().__init__(inner.schema)
        self._inner, self._apart = inner, apart

    def fold(self, piece: Piece) -> pa.Table:
        whole, *others = self._inner.fold_new(piece)
        self._apart.add(others)
        return whole
