"""Selection of the files and columns of a plan for another Parquet reader (format sheet 6, 7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.filestore.metadata.paths import TablePaths
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.read.deletion_vectors import DeletionVectorRef, vector_of
from lakelog.filestore.read.plan import Split
from lakelog.filestore.read.superseded_rows import merges_by_position
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.schema.schema import TableSchema, file_fields
from lakelog.paimon.types.evolution import same_type
from lakelog.paimon.types.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType

_SAME_EVERYWHERE: Final = frozenset(
    ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "CHAR", "VARCHAR", "BINARY", "VARBINARY")
    + ("DATE", "DECIMAL", "TIMESTAMP", "TIMESTAMP_LTZ")
)
"""Types with the same values in every Parquet reader; TIME is a number of milliseconds in Spark."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9-][A-Za-z0-9._-]*\.parquet")
"""Names that every reader takes literally; Spark skips files that begin with _ or . and escapes others."""
_FLOATS: Final = ("FLOAT", "DOUBLE")
_DIGITS_OF_MICROS: Final = 6
"""Timestamps with more digits are INT96 in a Parquet file."""

ROWS_AT_ONCE: Final = 16 << 20
"""Maximum rows whose keys one process keeps in memory, with 40 bytes or more each."""
_MOST_ROWS: Final = 4 * ROWS_AT_ONCE

Sources = tuple[str | None, ...]
"""The name in a file of each requested column; None if the file lacks the column, which is NULL then."""


@dataclass(frozen=True)
class NativeFile:
    """A data file that is read without a merge, except for hidden rows.

    ``vector`` names the hidden rows. In a file of the overlapping files ``merged`` they are the rows that a merge would
    drop (``superseded_rows``, which includes the vectors).
    """

    path: str
    meta: DataFileMeta
    vector: DeletionVectorRef | None = None
    merged: Split | None = None

    @property
    def is_whole(self) -> bool:
        """True if all rows are read."""
        return self.vector is None and self.merged is None


@dataclass(frozen=True)
class NativePlan:
    """A divided plan: native files grouped by the names of their columns, and the remaining splits."""

    files: dict[Sources, tuple[NativeFile, ...]]
    rest: tuple[Split, ...]

    @property
    def file_count(self) -> int:
        """The number of files that are read natively."""
        return sum(len(files) for files in self.files.values())


def pick_native(splits: Iterable[Split], columns: Sequence[str], schemas: Schemas, paths: TablePaths) -> NativePlan:
    """Selects the files of a plan that need no merge and that every reader reads identically.

    The driver calls it before a query of an engine with its own Parquet reader. If a merge only selects rows
    (``superseded_rows.merges_by_position``), overlapping files are selected, too. Either all files of a split are
    selected or none. The driver must be able to read their keys: 16 million rows per split, 64 million per plan. Files
    stay in the splits if they have another format, a name that not every reader accepts (``data-file.prefix``), columns
    of another type than the table, possibly missing partition columns, or only some columns of their rows. Reads only
    schema files (cached).
    """
    layouts = Layouts(columns, schemas, paths)
    splits = list(splits)
    overlapping = sum(split.row_count for split in splits if split.needs_merge)
    hides = merges_by_position(paths.schema) and overlapping <= _MOST_ROWS
    native: dict[Sources, list[NativeFile]] = {}
    rest: list[Split] = []
    for split in splits:
        by_file = [layouts.sources(file) for file in split.files]
        if not split.files or (split.needs_merge and (None in by_file or not hides or split.row_count > ROWS_AT_ONCE)):
            rest.append(split)
            continue
        for file, sources in zip(split.files, by_file, strict=True):
            if sources is not None:
                native.setdefault(sources, []).append(_native_file(split, file, paths))
        kept = tuple(file for file, sources in zip(split.files, by_file, strict=True) if sources is None)
        if kept or split.inline_runs:
            names = {f.file_name for f in kept}
            vectors = tuple(v for v in split.vectors if v.data_file in names)
            # inline rows have one row per key, so without files there is nothing to merge
            rest.append(replace(split, files=kept, vectors=vectors, needs_merge=False))
    return NativePlan({sources: tuple(files) for sources, files in native.items()}, tuple(rest))


def _native_file(split: Split, file: DataFileMeta, paths: TablePaths) -> NativeFile:
    path = paths.data_file(split.partition, split.bucket, file)
    if split.needs_merge:
        return NativeFile(path, file, merged=split)
    return NativeFile(path, file, vector_of(split.vectors, file.file_name))


class Layouts:
    """The names of the columns ``columns`` in a table's data files, for one plan."""

    def __init__(self, columns: Sequence[str], schemas: Schemas, paths: TablePaths) -> None:
        self._columns, self._schemas, self._table = columns, schemas, paths.schema
        self._by_schema: dict[int, Sources | None] = {}
        self._are_native = all(is_native_type(f.type) for f in self._table.select(columns))
        self._partitioned = bool(set(columns) & set(self._table.partition_keys))

    def sources(self, file: DataFileMeta) -> Sources | None:
        """The names of the columns in a file; None for a file that lakelog must read."""
        if not self._are_native or not _PLAIN_NAME.fullmatch(file.file_name) or file.write_cols is not None:
            return None
        if self._partitioned and not self._table.is_keyed and _is_taken_over(file):
            return None
        if file.schema_id not in self._by_schema:
            self._by_schema[file.schema_id] = self._found(self._schemas.get(file.schema_id))
        return self._by_schema[file.schema_id]

    def _found(self, written: TableSchema) -> Sources | None:
        names = [f.name.lower() for f in file_fields(written)]
        # readers may treat `a` and `A` as one column, and have their own hidden columns
        if len(set(names)) < len(names) or any(n.startswith(("_metadata", "_tmp_metadata")) for n in names):
            return None
        by_id = {f.id: f for f in written.fields}
        stored: list[str | None] = []
        for field in self._table.select(self._columns):
            source = by_id.get(field.id)
            if source is not None and not same_type(source.type, field.type):
                return None
            if source is None and field.name in self._table.partition_keys:
                return None
            stored.append(None if source is None else source.name)
        return tuple(stored)


def is_native_type(kind: DataType, inside_row: bool = False) -> bool:
    """Returns whether every Parquet reader returns the same values of a type as lakelog.

    Statistics of a Parquet file omit NaN, which SQL sorts above all numbers. So a filter on a float inside a ROW could
    skip rows (the reader guards floats outside of a ROW).
    """
    if isinstance(kind, AtomicType):
        if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            return (kind.precision or 0) <= _DIGITS_OF_MICROS
        return kind.root in _SAME_EVERYWHERE and not (inside_row and kind.root in _FLOATS)
    if isinstance(kind, ArrayType):
        return is_native_type(kind.element)
    if isinstance(kind, MapType):
        return is_native_type(kind.key) and is_native_type(kind.value)
    if isinstance(kind, MultisetType):
        return is_native_type(kind.element)
    return isinstance(kind, RowType) and all(is_native_type(f.type, True) for f in kind.fields)


def is_float(field: DataField) -> bool:
    """Returns whether a column is FLOAT or DOUBLE."""
    return isinstance(field.type, AtomicType) and field.type.root in _FLOATS


def _is_taken_over(file: DataFileMeta) -> bool:
    """Returns whether a file may be adopted from another table (no row numbers), so it may lack partition columns."""
    return file.max_sequence_number == 0
