"""Reads a data file of any schema and format as rows of the table's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat import format_of
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.read.deletion_vectors import DeletionVectorRef, read_vector, without_deleted
from lakelog.filestore.skipping.file_index import may_have_rows
from lakelog.filestore.skipping.predicate import Predicate, conjunction, conjuncts
from lakelog.io.storage.file_io import FileIO
from lakelog.options.file_index import INDEX_READ
from lakelog.options.option import Options
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.rows.row_kind import INSERT
from lakelog.paimon.schema.schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema, file_fields
from lakelog.paimon.types.arrow import arrow_schema, arrow_type
from lakelog.paimon.types.evolution import as_before, evolve, same_type
from lakelog.paimon.types.types import AtomicType, DataField, DataType

SYSTEM_COLUMNS: Final = (SEQUENCE_NUMBER.name, VALUE_KIND.name)

_BATCH_ROWS: Final = 1 << 16
_LEAST_BATCH_ROWS: Final = 1 << 12
_MERGE_BYTES: Final = 256 << 20
"""Approximate memory of the batches of one merge, with two batches per run."""
_EXPANSION: Final = 8
"""Typical maximum of bytes in memory per byte in a file."""
_PUSHED_ROOTS: Final = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "VARCHAR", "CHAR", "DATE", "DOUBLE")
"""Types with identical values in Parquet files and columns, so that filters can be pushed down."""


@dataclass(frozen=True)
class DataFileReader:
    """Reads the data files of one table."""

    io: FileIO
    paths: TablePaths
    schemas: Schemas

    def read(
        self,
        partition: bytes,
        bucket: int,
        file: DataFileMeta,
        columns: Sequence[str],
        system_columns: bool = False,
        filter: Predicate | None = None,
        vector: DeletionVectorRef | None = None,
        batch_rows: int = _BATCH_ROWS,
        with_numbers: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of the table columns ``columns``, then the system columns if requested.

        These are ``_SEQUENCE_NUMBER``, unless ``with_numbers`` is false, and ``_VALUE_KIND``.

        Columns are matched by field id in the file's schema. Missing columns are NULL, and columns of another type are
        cast. Partition columns come from ``partition`` (the serialised row), because files adopted from another table
        lack them. Files of tables without a primary key number their rows from the smallest sequence number of their
        metadata. ``filter`` drops some non-matching rows, not all. ``vector`` is the file's deletion vector, whose rows
        are skipped. Raises NotFound, Corrupt, UnsupportedFeature for an unsupported type change, InvalidSchema for a
        value that cannot be cast to the new type.
        """
        table = self.paths.schema
        written = self.schemas.get(file.schema_id)
        check_complete(file, written)
        sources = {f.id: f for f in written.fields}
        constants = _constants(partition, table)
        fields = [
            (field, None if field.name in constants else sources.get(field.id)) for field in table.select(columns)
        ]
        names = [source.name for _, source in fields if source is not None]
        added = (SYSTEM_COLUMNS if with_numbers else SYSTEM_COLUMNS[1:]) if system_columns else ()
        system = added if table.is_keyed else ()
        counted = [] if names or system else [next(n for n in written.field_names if n not in constants)]
        target = row_schema(table, columns, system_columns)
        if system_columns and not with_numbers:
            target = target.remove(len(columns))
        path = self.paths.data_file(partition, bucket, file)
        format_ = format_of(file.file_name)
        # with a filter inside the format reader, the positions of the rows would be unknown
        by_format = format_.skips_by_filter and vector is None and not (system_columns and not table.is_keyed)
        asked = _pushed(filter, fields)
        if asked is not None and not self._may_have_rows(path, file, written, asked):
            return
        pushed = asked if by_format else None
        expression = None if pushed is None else pushed.to_arrow(arrow_schema(written.select(sorted(pushed.columns))))
        deleted = None if vector is None else read_vector(self.io, vector)
        change = as_before if written.id > table.id else evolve
        position = 0
        filter_columns = () if pushed is None else sorted(pushed.columns)
        for batch in format_.read(
            self.io, path, [*names, *system, *counted], batch_rows, expression, file_fields(written), filter_columns
        ):
            first, position = position, position + batch.num_rows
            if system_columns and not system:
                batch = _numbered(batch, file.min_sequence_number + first)
            if deleted is not None:
                batch = without_deleted(batch, first, deleted)
            arrays = [_column(batch, field, source, constants, change) for field, source in fields]
            arrays += [batch.column(name) for name in added]
            yield pa.RecordBatch.from_arrays(arrays, schema=target) if arrays else batch.select([])

    def _may_have_rows(self, path: str, file: DataFileMeta, written: TableSchema, asked: Predicate) -> bool:
        is_read = Options(self.paths.schema.options).need(INDEX_READ)
        return not is_read or may_have_rows(self.io, path, file, written, asked)


def merge_batch_rows(runs: Sequence[Sequence[DataFileMeta]], share: float = 1.0) -> int:
    """The batch size in rows that keeps a merge of these runs within its memory; ``share`` of the columns is read.

    It is a power of two like the size of row groups, so that these are split evenly. Pure.
    """
    rows = max(1, sum(f.row_count for run in runs for f in run))
    row_bytes = max(1.0, sum(f.file_size for run in runs for f in run) * _EXPANSION * share / rows)
    most = int(_MERGE_BYTES / (2 * max(1, len(runs)) * row_bytes))
    return max(_LEAST_BATCH_ROWS, min(_BATCH_ROWS, 1 << max(0, most.bit_length() - 1)))


def check_complete(file: DataFileMeta, written: TableSchema) -> None:
    """Raises UnsupportedFeature for a data file that has only some columns of its schema.

    Tables with data evolution or BLOB columns have such files, whose rows are assembled from several files.
    """
    if file.write_cols is not None and not set(file.write_cols) >= set(written.field_names):
        raise UnsupportedFeature(
            f"data file '{file.file_name}' holds only the columns {', '.join(file.write_cols)} of its rows (data "
            "evolution), which lakelog cannot join: rewrite the table with another engine"
        )


def row_schema(table: TableSchema, columns: Sequence[str], system_columns: bool) -> pa.Schema:
    """The Arrow schema of rows read from files."""
    fields = table.select(columns)
    return arrow_schema((*fields, SEQUENCE_NUMBER, VALUE_KIND) if system_columns else fields)


def _pushed(filter: Predicate | None, fields: Sequence[tuple[DataField, DataField | None]]) -> Predicate | None:
    """The part of a filter that a Parquet reader evaluates correctly, with the file's column names."""
    names = {
        field.name: source.name
        for field, source in fields
        if source is not None
        and same_type(field.type, source.type)
        and isinstance(field.type, AtomicType)
        and field.type.root in _PUSHED_ROOTS
    }
    return conjunction(p.renamed(names) for p in conjuncts(filter) if p.columns <= names.keys())


def _constants(partition: bytes, table: TableSchema) -> dict[str, pa.Scalar]:
    """The values of the partition columns."""
    values = decode_partition(partition, table) if table.partition_keys else ()
    fields = table.select(table.partition_keys)
    return {f.name: scalar_of(value, arrow_type(f.type)) for f, value in zip(fields, values, strict=True)}


def scalar_of(value: Any, kind: pa.DataType) -> pa.Scalar:
    """An Arrow scalar; pyarrow does not convert nanoseconds (``numpy.datetime64``) to a type with a time zone."""
    return pa.scalar(value).cast(kind) if isinstance(value, np.datetime64) else pa.scalar(value, kind)


def _column(
    batch: pa.RecordBatch,
    field: DataField,
    source: DataField | None,
    constants: Mapping[str, pa.Scalar],
    change: Callable[[pa.Array, DataType, DataType, str], pa.Array],
) -> pa.Array:
    if field.name in constants:
        return pa.repeat(constants[field.name], batch.num_rows)
    if source is None:
        return pa.nulls(batch.num_rows, arrow_type(field.type))
    return change(batch.column(source.name), source.type, field.type, field.name)


def _numbered(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """The batch with system columns, for files without them."""
    rows = batch.num_rows
    numbers = pa.array(np.arange(first, first + rows, dtype=np.int64))
    kinds = pa.array(np.full(rows, INSERT, dtype=np.int8))
    kept = batch.drop_columns([n for n in SYSTEM_COLUMNS if n in batch.schema.names])
    return kept.append_column(SYSTEM_COLUMNS[0], numbers).append_column(SYSTEM_COLUMNS[1], kinds)
