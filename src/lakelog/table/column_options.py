"""The options of a table that name its columns or depend on their types, checked before the table has them."""

from __future__ import annotations

from lakelog.filestore.compaction.record_expiry import RecordExpiry, check_time_column
from lakelog.filestore.iceberg.schemas import check_exportable
from lakelog.filestore.read.changes import check_producer
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.skipping.file_index import FileIndexWriter
from lakelog.filestore.write.data_file_writer import check_formats
from lakelog.merge.table_rules import check_kind_column
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.staging.watermark import check_event_column


def check_column_options(schema: TableSchema) -> None:
    """Checks the options of a new schema that would fail a later write, read or compaction.

    Called for CREATE TABLE and ALTER TABLE. Raises InvalidOption, InvalidSchema and UnsupportedFeature with key, value
    and what fits.
    """
    if schema.is_keyed:
        engine_of(schema).check_options()
    check_formats(schema)
    check_producer(schema)
    check_kind_column(schema)
    check_event_column(schema)
    check_time_column(schema)
    RecordExpiry.of(schema)
    FileIndexWriter.of(schema)
    check_exportable(schema)
