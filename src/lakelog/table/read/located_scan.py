"""Batch read with metadata columns: the file, position, partition and bucket of each row, by Paimon's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidOption, InvalidRequest, UnsupportedFeature
from lakelog.filestore.read.data_file_reader import scalar_of
from lakelog.filestore.read.plan import Split, skips_level_zero
from lakelog.filestore.read.positions import LocatedRows, located_rows
from lakelog.filestore.read.superseded_rows import merges_by_position
from lakelog.filestore.skipping.predicate import conjunction, conjuncts
from lakelog.options.option import Options
from lakelog.options.scan import SCAN_METADATA_COLUMNS
from lakelog.options.table import MERGE_ENGINE
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.types import MAX_LENGTH, AtomicType, DataField, RowType
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.base import TableScan, chosen
from lakelog.table.read.file_scan import Scan

FILE_PATH: Final = "__paimon_file_path"
ROW_INDEX: Final = "__paimon_row_index"
PARTITION: Final = "__paimon_partition"
BUCKET: Final = "__paimon_bucket"
FILE_METADATA: Final = "_metadata"
"""Spark's struct of a row's file, with the parts that a table knows."""
METADATA_COLUMNS: Final = (FILE_PATH, ROW_INDEX, PARTITION, BUCKET, FILE_METADATA)
_OF_FILES: Final = (FILE_PATH, ROW_INDEX, FILE_METADATA)
"""Columns with a value only for rows that are rows of one file."""
_FIRST_ID: Final = 2_147_000_000
"""Ids that no column of a table reaches."""
_TEXT, _COUNT, _NUMBER = AtomicType("VARCHAR", length=MAX_LENGTH), AtomicType("BIGINT"), AtomicType("INT")
_PARTS: Final = (("file_path", _TEXT), ("file_name", _TEXT), ("file_size", _COUNT), ("row_index", _COUNT))


@dataclass(frozen=True, repr=False)
class LocatedScan(TableScan):
    """The rows of a scan with the metadata columns ``added``.

    Rows that are in no file yet have NULL for file and index.
    Raises UnsupportedFeature for a plan whose rows are merged of several files, if a column of files is read.
    """

    scan: Scan = field(kw_only=True)
    added: tuple[str, ...] = field(kw_only=True)

    @property
    def row_schema(self) -> TableSchema:
        """The table's columns, then the metadata columns."""
        schema = self.table.schema
        return replace(schema, fields=(*schema.fields, *(_field(name, schema) for name in self.added)))

    def plan(self) -> list[Split]:
        condition = conjunction(part for part in conjuncts(self.filter) if part.columns.isdisjoint(self.added))
        splits = self.scan.where(condition).plan()
        if self._names_files and any(split.needs_merge for split in splits) and not _is_located(self.table.schema):
            raise _merged(self.table, next(name for name in self._read if name in _OF_FILES))
        return splits

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        schema, store = self.table.schema, self.table.store
        columns = [name for name in self._read if name not in self.added]
        columns = columns or [(schema.primary_keys or schema.field_names)[0]]
        if self._names_files:
            with store.snapshots.reading(split.snapshot_id, store.name):
                for rows in located_rows(store.files, split, columns):
                    yield from self._chosen(rows, split)
            return
        for batch in store.read_split(split, columns=columns):
            yield from self._chosen(LocatedRows(batch), split)

    @property
    def _read(self) -> list[str]:
        """The columns to read, those of the filter included."""
        names = self.schema.names
        return [*names, *sorted((self.filter.columns if self.filter else frozenset()) - set(names))]

    @property
    def _names_files(self) -> bool:
        return any(name in _OF_FILES for name in self._read if name in self.added)

    def _chosen(self, rows: LocatedRows, split: Split) -> Iterator[pa.RecordBatch]:
        batch = rows.batch
        for name in self._read:
            if name in self.added:
                batch = batch.append_column(name, self._column(name, rows, split))
        yield from chosen(batch, self.schema, self.filter)

    def _column(self, name: str, rows: LocatedRows, split: Split) -> pa.Array:
        schema, size = self.table.schema, rows.batch.num_rows
        if name == BUCKET:
            return pa.repeat(pa.scalar(split.bucket, pa.int32()), size)
        kind = arrow_type(_field(name, schema).type)
        if name == PARTITION:
            values = decode_partition(split.partition, schema)
            parts = [pa.repeat(scalar_of(v, part.type), size) for v, part in zip(values, kind, strict=True)]
            return pa.StructArray.from_arrays(parts, fields=list(kind))
        if rows.file is None or rows.positions is None:
            return pa.nulls(size, kind)
        index = pa.array(rows.positions)
        if name == ROW_INDEX:
            return index
        path = self.table.store.paths.data_file(split.partition, split.bucket, rows.file)
        if name == FILE_PATH:
            return pa.repeat(pa.scalar(path), size)
        values = (path, rows.file.file_name, rows.file.file_size)
        parts = [pa.repeat(scalar_of(v, part.type), size) for v, part in zip(values, list(kind)[:-1], strict=True)]
        return pa.StructArray.from_arrays([*parts, index], fields=list(kind))


def located_scan(scan: TableScan) -> TableScan:
    """A scan with the metadata columns that the options of its table name; the same without any.

    Raises InvalidOption for an unknown name, InvalidRequest for a read without files, UnsupportedFeature for columns
    of files of a table whose rows are merged of several files.
    """
    text = scan.table.options.get_typed(SCAN_METADATA_COLUMNS)
    if text is None:
        return scan
    table = scan.table
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in METADATA_COLUMNS:
            raise InvalidOption(
                f"option '{SCAN_METADATA_COLUMNS.key}' = '{text}': '{name}' is not one of {', '.join(METADATA_COLUMNS)}"
            )
        if name in table.schema.field_names:
            raise InvalidOption(f"'{name}' is a column of table {table.name}: remove it from the option")
        if name == PARTITION and not table.schema.partition_keys:
            raise InvalidRequest(f"table {table.name} has no partitions: '{name}' is of partitioned tables")
        if name in _OF_FILES and not (_is_located(table.schema) or skips_level_zero(table.schema)):
            raise _merged(table, name)
    if not isinstance(scan, Scan):
        raise InvalidRequest(
            f"'{names[0]}' is a column of batch reads of files: read table {table.name} with 'read.mode' = 'file', "
            "without a range of changes"
        )
    return LocatedScan(table, scan=scan, added=names)


def _is_located(schema: TableSchema) -> bool:
    """Returns whether each row of a read is a row of one file."""
    return not schema.is_keyed or merges_by_position(schema)


def _merged(table: DynamicTable, name: str) -> UnsupportedFeature:
    engine = Options(table.schema.options).need(MERGE_ENGINE)
    return UnsupportedFeature(
        f"'{name}' has no value in table {table.name}: its rows are merged of several files (merge-engine = {engine}). "
        f"Read '{BUCKET}', or the files in `{table.name}$files`"
    )


def _field(name: str, schema: TableSchema) -> DataField:
    at = _FIRST_ID + 100 * METADATA_COLUMNS.index(name)
    if name == BUCKET:
        return DataField(at, name, _NUMBER)
    if name == PARTITION:
        parts: Sequence[tuple[str, Any]] = [(f.name, f.type) for f in schema.select(schema.partition_keys)]
    elif name == FILE_METADATA:
        parts = _PARTS
    else:
        return DataField(at, name, _COUNT if name == ROW_INDEX else _TEXT)
    return DataField(at, name, RowType(tuple(DataField(at + i, *part) for i, part in enumerate(parts, 1))))
