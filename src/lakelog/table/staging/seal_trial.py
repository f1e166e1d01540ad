"""Trial of the seal for an inline run, before its epoch is decided: what fails there would fail for good."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.skipping.file_index import FileIndexWriter
from lakelog.filestore.write.bucket_writer import BucketWriter
from lakelog.filestore.write.data_file_writer import data_style
from lakelog.filestore.write.file_stats import FileStats
from lakelog.io.storage.local import LocalFileIO
from lakelog.merge.base import KIND_COLUMN as KIND
from lakelog.merge.base import SEQUENCE_COLUMN, PickingEngine
from lakelog.merge.runs import fold_rows
from lakelog.options.option import Options
from lakelog.options.table import FILE_FORMAT
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN
from lakelog.table.model.dynamic_table import DynamicTable

_TRIED: Final[set[tuple[str, int]]] = set()
"""Tables and schema ids of which this process has written a file on trial."""


class _NoFiles(LocalFileIO):
    """Takes files and keeps nothing."""

    def open_output(self, path: str) -> pa.NativeFile:
        return pa.BufferOutputStream()

    def write(self, path: str, data: bytes) -> None:
        return

    def delete(self, path: str) -> None:
        return


def check_seal(rows: pa.Table, table: DynamicTable, partition: bytes, bucket: int) -> None:
    """Folds and encodes an inline run as the seal will, and keeps nothing of it.

    Parquet takes every value of a column that it takes at all: it is tried with the first run of a schema. The
    statistics, the file indexes and the other formats are tried with every run. Raises InvalidSchema,
    UnsupportedFeature.
    """
    names = {ORDER_COLUMN: SEQUENCE_COLUMN, KIND_COLUMN: KIND}
    renamed = rows.rename_columns([names.get(name, name) for name in rows.column_names])
    schema, engine = table.schema, engine_of(table.schema)
    if schema.is_keyed and not isinstance(engine, PickingEngine):
        fold_rows(renamed, schema.trimmed_primary_keys, engine)
    tried = (table.path, schema.id)
    if tried not in _TRIED or Options(schema.options).need(FILE_FORMAT) != FILE_FORMAT.default:
        writer = BucketWriter(_NoFiles(), table.store.paths, partition, bucket, tells_changes=False)
        writer.write(rows.drop_columns([ORDER_COLUMN, KIND_COLUMN]), rows.column(KIND_COLUMN))
        writer.finish()
        _TRIED.add(tried)
        return
    stats = FileStats(schema, data_style(Options(schema.options), 0).stats_mode)
    index = FileIndexWriter.of(schema)
    for batch in renamed.combine_chunks().to_batches():
        stats.add(batch)
        index.add(batch)
    stats.meta("", 0, 0, 0, 0)
