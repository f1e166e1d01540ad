"""The options of a table that name its columns or depend on their types, checked before the table has them."""

from __future__ import annotations

import pyarrow as pa

from lakelog.errors import InvalidOption
from lakelog.filestore.compaction.record_expiry import RecordExpiry, check_time_column
from lakelog.filestore.iceberg.schemas import check_exportable
from lakelog.filestore.read.changes import check_producer
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.skipping.file_index import FileIndexWriter
from lakelog.filestore.write.data_file_writer import check_formats
from lakelog.merge.table_rules import check_kind_column
from lakelog.options.log import WATERMARK_COLUMN
from lakelog.options.option import Options
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema


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


def check_event_column(schema: TableSchema) -> None:
    """Raises InvalidOption if ``watermark.column`` names a column that is not a time, or none of the table."""
    name = Options(schema.options).get_typed(WATERMARK_COLUMN)
    if name is None:
        return
    if name not in schema.field_names:
        raise InvalidOption(
            f"option '{WATERMARK_COLUMN.key}' = '{name}': the table has no such column. Columns: "
            f"{', '.join(schema.field_names)}"
        )
    kind = arrow_schema(schema.fields).field(name).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_int64(kind)):
        raise InvalidOption(
            f"option '{WATERMARK_COLUMN.key}' = '{name}': the column is {kind}; name a column of type TIMESTAMP, "
            "DATE, or BIGINT (milliseconds since 1970)"
        )
