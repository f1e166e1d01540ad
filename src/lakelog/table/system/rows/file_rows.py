"""``$file_rows``: the rows of the table, each with its data file, its place there, its partition and bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.filestore.read.deletion_vectors import read_vector, vector_of
from lakelog.filestore.read.plan import Split
from lakelog.io import scheme_of
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema, arrow_type
from lakelog.paimon.types.types import STRING, AtomicType, DataField, RowType
from lakelog.table.read.base import TableScan, chosen
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.time_travel import as_of, travel_to

FILE_PATH: Final = "__paimon_file_path"
ROW_INDEX: Final = "__paimon_row_index"
PARTITION: Final = "__paimon_partition"
BUCKET: Final = "__paimon_bucket"
METADATA_COLUMNS: Final = (FILE_PATH, ROW_INDEX, PARTITION, BUCKET)
"""Names of Apache Paimon's metadata columns."""
_FIRST_ID: Final = 2147483600


class FileRows(TableScan):
    """The table's columns, then the metadata columns. File and index are NULL for rows that a read merges."""

    @property
    def row_schema(self) -> TableSchema:
        """The table's columns as of the selected snapshot, and the metadata columns."""
        schema = self._source.row_schema
        kinds = (STRING, AtomicType("BIGINT"), RowType(schema.select(schema.partition_keys)), AtomicType("INT"))
        more = zip(range(_FIRST_ID, _FIRST_ID + len(kinds)), METADATA_COLUMNS, kinds, strict=True)
        used = [(at, name, kind) for at, name, kind in more if name != PARTITION or schema.partition_keys]
        return replace(schema, fields=(*schema.fields, *(DataField(at, name, kind) for at, name, kind in used)))

    @property
    def _source(self) -> Scan:
        plain = replace(self.table, view=None)
        snapshot = travel_to(plain.store, plain.options)
        return Scan(plain if snapshot is None else as_of(plain, snapshot), snapshot=snapshot)

    def plan(self) -> list[Split]:
        """The splits of all rows; a filter applies to the rows, because their places in the files count."""
        return self._source.plan()

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        used = {*self.schema.names, *(self.filter.columns if self.filter else ())}
        source = self._source
        names = tuple(n for n in source.row_schema.field_names if n in used)
        source = source.select(names or source.row_schema.field_names[:1])
        if split.needs_merge or split.inline_runs:
            for batch in source.read(split):
                yield from chosen(self._placed(batch, split, None, None), self.schema, self.filter)
            return
        for file in split.files:
            yield from self._of_file(source, split, file)

    def _of_file(self, source: Scan, split: Split, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        store = source.table.store
        vector = vector_of(split.vectors, file.file_name)
        deleted = np.array([], np.int64) if vector is None else np.asarray(read_vector(store.io, vector))
        path = store.paths.data_file(split.partition, split.bucket, file)
        start = 0
        for batch in source.read(replace(split, files=(file,), vectors=())):
            places = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            kept = pa.array(~np.isin(places, deleted))
            rows = self._placed(batch, split, _uri(source, path), pa.array(places, pa.int64())).filter(kept)
            yield from chosen(rows, self.schema, self.filter)

    def _placed(self, batch: pa.RecordBatch, split: Split, path: str | None, index: pa.Array | None) -> pa.RecordBatch:
        """The rows with the metadata columns."""
        count = batch.num_rows
        schema = arrow_schema(self.row_schema.fields)
        constants = {FILE_PATH: path, BUCKET: split.bucket}
        if PARTITION in schema.names:
            keys = self.row_schema.partition_keys
            values = decode_partition(split.partition, self.table.schema)
            kinds = arrow_type(self.row_schema.field(PARTITION).type)
            parts = [pa.array([v], kinds.field(i).type) for i, v in enumerate(values)]
            struct = pa.StructArray.from_arrays(parts, fields=[kinds.field(i) for i in range(len(keys))])
            batch = batch.append_column(PARTITION, struct.take(pa.array(np.zeros(count, np.int64))))
        for name, value in constants.items():
            batch = batch.append_column(name, pa.repeat(pa.scalar(value, schema.field(name).type), count))
        return batch.append_column(ROW_INDEX, pa.nulls(count, pa.int64()) if index is None else index)


def _uri(source: Scan, path: str) -> str:
    """A path as Spark shows it, with a scheme."""
    is_bare = scheme_of(path) == "file" and not path.lower().startswith("file:")
    return f"file://{source.table.io.absolute(path)}" if is_bare else path
