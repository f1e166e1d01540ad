"""The real-time path: reads and writes a table's Kafka log with Spark's own connector and native operators alone.

Spark's real-time trigger supports nothing else: no Python source, no Python sink, no Python function. Frames made here
run under ``trigger(realTime=…)`` with milliseconds of latency, and as micro-batches too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StringType, StructField, StructType

from lakelog.errors import InvalidOption, InvalidRequest, UnsupportedFeature
from lakelog.filestore.read.split_reader import engine_of
from lakelog.logstore import log_factory
from lakelog.logstore.base import LogLocation
from lakelog.logstore.protocol.header import CORRECTION, DATA, HEADER_KEY, encode_header
from lakelog.options.log import (
    CHANGELOG_MODES,
    DATA_FORMAT,
    LOG_ADOPT,
    LOG_CONSISTENCY,
    NORMALIZE,
    RETRACTIONS,
    STARTUP_MODE,
    STARTUP_OFFSETS,
    STARTUP_TIMESTAMP,
    parse_specific_offsets,
)
from lakelog.options.parts import LOG_FORMATS
from lakelog.options.table import MISSING_COLUMNS, ROWKIND_FIELD
from lakelog.paimon.rows.row_kind import DELETE, INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.defaults import default_scalar
from lakelog.spark.compat.kinds import DATETIMES
from lakelog.spark.realtime.columns_by_id import altered, changes_by_id, has_one_layout
from lakelog.spark.realtime.json_columns import bucket_column, cast, decoded, encoded, json_type, spark_type
from lakelog.spark.realtime.kafka_connector import client_options, connector_needed
from lakelog.spark.runtime.types import arrow_for_spark, checks_casts, column_of, columns_of, quoted, with_times
from lakelog.sql.dml.assignments import default_value
from lakelog.sql.syntax.struct_casts import FieldMatch, cast_text, has_struct
from lakelog.table.log.partitions import partitioned_schema
from lakelog.table.log.record_schemas import RecordSchemas
from lakelog.table.log.register import register_follower
from lakelog.table.log.scan import LogScan, retraction_refused
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.staging.given_columns import check_columns
from lakelog.table.tail.normalizer import normalizes

_CHANGE: Final = "change"
_ROW: Final = "row"
_PRODUCER: Final = {"kafka.acks": "all", "kafka.linger.ms": "0", "kafka.compression.type": "lz4"}
_LATEST: Final = -1
"""Spark's value for the end of a partition."""


def realtime_log(table: DynamicTable) -> LogLocation:
    """The log of a table that the real-time path supports. Raises InvalidRequest, UnsupportedFeature for any other."""
    log = table.log
    if log is None or not log_factory(log.system).speaks_kafka:
        have = "no log" if log is None else f"a log of type '{log.system}'"
        raise InvalidRequest(
            f"the real-time path needs a log on Kafka, but table {table.name} has {have}: create it with "
            f"'log-store.enabled'='true' and 'log-store.address', or use read_stream and write_stream"
        )
    form = table.options.need(DATA_FORMAT)
    if not LOG_FORMATS.load(form).spark_decodes:
        decoded = [name for name, known in LOG_FORMATS.importable().items() if known.spark_decodes]
        raise UnsupportedFeature(
            f"the log of table {table.name} is '{form}', which Spark's own operators cannot decode: create the table "
            f"with '{DATA_FORMAT.key}'='{decoded[0]}', or use read_stream and write_stream"
        )
    if table.options.need(LOG_ADOPT):
        raise UnsupportedFeature(
            f"the log of table {table.name} belongs to another producer ('{LOG_ADOPT.key}' = 'true'), whose encodings "
            "Spark's own operators cannot decode: use read_stream, and let only that producer write"
        )
    return log


def read_changes(spark: SparkSession, table: DynamicTable, columns: Sequence[str] | None) -> DataFrame:
    """A streaming DataFrame of the log's changes: the columns (None: all) and ``_row_kind``.

    Raises NotInstalled without the connector, InvalidRequest for an unsupported log or start.
    """
    if normalizes(table):
        raise InvalidRequest(
            f"'{NORMALIZE.key}' of table {table.name} needs a state, which the real-time path does not have: remove "
            "the option, or use read_stream"
        )
    log = realtime_log(table)
    if LogScan(table).is_transactional:
        raise UnsupportedFeature(
            f"'{LOG_CONSISTENCY.key}'='transactional' of table {table.name} is not supported by the real-time path: "
            "Spark's own operators see each record once and cannot wait for its commit. Use read_stream, or set "
            f"'{LOG_CONSISTENCY.key}'='eventual' for this read"
        )
    options = {**client_options(log), **_start(table, log), "subscribe": log.topic, "includeHeaders": "true"}
    with connector_needed():
        records = spark.readStream.format("kafka").options(**options).load()
        _ = records.schema  # Spark Connect resolves the source only now
    return changes_of(records, table, columns)


def changes_of(records: DataFrame, table: DynamicTable, columns: Sequence[str] | None = None) -> DataFrame:
    """The changes in records (``value``, ``headers``) of the table's log: the columns (None: all) and ``_row_kind``.

    The same rows as ``LogScan.decode``: data records and, with the consistency guarantee, corrections; an update with
    both images is two rows. The query fails on an invalid record. Raises InvalidSchema for a column that the table does
    not have.
    """
    schema = arrow_schema(table.schema.select(columns)) if columns is not None else LogScan(table).data_schema
    kinds = [DATA, *([CORRECTION] if LogScan(table).emits_corrections else [])]
    schemas = RecordSchemas(table)
    one_layout = has_one_layout(schemas)
    wanted = records.where(sf.col("value").isNotNull() & _record_kind(table, not one_layout).isin(*kinds))
    text = sf.col("value").cast("string")
    if one_layout:
        image = StructType([StructField(f.name, json_type(f.type)) for f in schema])
        change = StructType([StructField(n, image) for n in ("before", "after")] + [StructField("op", StringType())])
        found = sf.from_json(text, change, {"mode": "FAILFAST"})
    else:
        found = changes_by_id(text, _schema_id(), schemas, schema.names)
    rows = wanted.select(found.alias(_CHANGE)).select(sf.inline(_rows_of_change()))
    if table.options.need(CHANGELOG_MODES) == "append-only":
        rows = rows.where(_is_insert(table))
    values = ((f, sf.col(_ROW).getField(f.name)) for f in schema)
    fields = [(decoded(value, f.type) if one_layout else value).alias(f.name) for f, value in values]
    return rows.select(*fields, ROW_KIND_COLUMN)


def _start(table: DynamicTable, log: LogLocation) -> dict[str, str]:
    """The start of the source, as its options."""
    mode = table.options.need(STARTUP_MODE)
    if mode in ("latest", "earliest"):
        return {"startingOffsets": str(mode)}
    if mode == "timestamp":
        moment = table.options.need(STARTUP_TIMESTAMP)
        return {"startingTimestamp": str(moment), "startingOffsetsByTimestampStrategy": "latest"}
    if mode == "specific-offsets":
        given = parse_specific_offsets(table.options.need(STARTUP_OFFSETS))
        offsets = {str(bucket): given.get(bucket, _LATEST) for bucket in range(log.buckets)}
        return {"startingOffsets": json.dumps({log.topic: offsets})}
    raise InvalidOption(
        f"option '{STARTUP_MODE.key}' = '{mode}' is not supported by the real-time path: use latest, earliest, "
        "timestamp or specific-offsets"
    )


def _is_insert(table: DynamicTable) -> Column:
    """True if a row is an insert; any other row fails the query if ``log.consumer.retractions`` requires it."""
    kind = sf.col(ROW_KIND_COLUMN)
    if table.options.need(RETRACTIONS) == "drop":
        return kind == NAMES[INSERT]
    refused = sf.raise_error(sf.lit(retraction_refused(table.name, "-D, -U or +U"))).cast("boolean")
    return sf.when(kind == NAMES[INSERT], sf.lit(True)).otherwise(refused)


def _header() -> Column:
    """The header of a record, NULL without one."""
    ours = sf.filter(sf.col("headers"), lambda h: h.getField("key") == sf.lit(HEADER_KEY))
    return sf.get(ours, sf.lit(0)).getField("value").cast("string")


def _record_kind(table: DynamicTable, with_schemas: bool) -> Column:
    """The kind in a record's header; data if it has none, as in ``parse_kinds``.

    Without ``with_schemas``, a record that names a schema stops the query: its columns are newer than the query.
    """
    header = _header()
    unknown = sf.concat(sf.lit("a log record has a header that this lakelog does not know: "), header)
    named = sf.substring(header, 3, 1) if with_schemas else sf.raise_error(sf.lit(altered(table.name))).cast("string")
    return (
        sf.when(header.isNull(), sf.lit(DATA))
        .when(header.startswith("1|"), sf.substring(header, 3, 1))
        .when(header.startswith("2|"), named)
        .otherwise(sf.raise_error(unknown).cast("string"))
    )


def _schema_id() -> Column:
    """The id of a record's schema, NULL without one (``protocol/header.py``)."""
    header = _header()
    return sf.when(header.startswith("2|"), sf.get(sf.split(header, "\\|"), sf.lit(7)).cast("int"))


def _rows_of_change() -> Column:
    """One or two structs (``_row_kind``, ``row``) of a debezium change."""
    op, before, after = (sf.col(_CHANGE).getField(name) for name in ("op", "before", "after"))
    unknown = sf.concat(
        sf.lit("a log value is not debezium-json with op c, u or d, but "), sf.coalesce(op, sf.lit("null"))
    )
    known = sf.when(op.isin("c", "u", "d"), op).otherwise(sf.raise_error(unknown).cast("string"))

    def row(image: Column, wanted: Column, of_update: int, else_: int) -> Column:
        kind = sf.when(op == "u", sf.lit(NAMES[of_update])).otherwise(sf.lit(NAMES[else_]))
        found = sf.struct(kind.alias(ROW_KIND_COLUMN), image.alias(_ROW))
        return sf.when(wanted & image.isNotNull(), found)

    rows = sf.array(
        row(before, known != "c", UPDATE_BEFORE, DELETE),
        row(after, known != "d", UPDATE_AFTER, INSERT),
    )
    return sf.filter(rows, lambda found: found.isNotNull())


def records_of(frame: DataFrame, table: DynamicTable) -> DataFrame:
    """The rows of a frame as records of the table's log: key, value, headers, partition.

    They belong to no epoch. They count as soon as they are in the log, and the follower writes them to files. Columns
    are matched by name. ``_row_kind`` makes them changes (an update is a delete of the old row and an insert of the new
    one). Raises InvalidSchema for columns that do not fit; an invalid value fails the query.
    """
    schema = table.schema
    check_columns(
        with_times(arrow_for_spark(frame.schema), schema), schema, table.name, table.options.need(MISSING_COLUMNS)
    )
    target = arrow_schema(schema.fields)
    given = {field.name: _value(frame, field, table) for field in target}
    typed = frame.select(*(c.alias(n) for n, c in given.items()), _removes(frame, table).alias(ROW_KIND_COLUMN))
    columns = {name: column_of(name) for name in target.names}
    row = _object([target.field(name) for name in target.names])
    value = sf.when(
        sf.col(ROW_KIND_COLUMN), sf.concat(sf.lit('{"before":'), row, sf.lit(',"after":null,"op":"d"}'))
    ).otherwise(sf.concat(sf.lit('{"before":null,"after":'), row, sf.lit(',"op":"c"}')))
    keys = [target.field(name) for name in schema.primary_keys]
    own = encode_header(DATA, "", 0, "", schema=RecordSchemas(table).own_id).decode()
    header = sf.struct(sf.lit(HEADER_KEY).alias("key"), sf.lit(own).cast("binary").alias("value"))
    return typed.select(
        (_object(keys) if keys else sf.lit(None).cast("string")).alias("key"),
        value.alias("value"),
        sf.array(header).alias("headers"),
        bucket_column(columns, partitioned_schema(schema)).alias("partition"),
    )


def start_write(table: DynamicTable, frame: DataFrame, checkpoint: str, real_time: str | None) -> Any:
    """Starts a query that appends a frame's rows to the log with Spark's Kafka sink; returns the StreamingQuery."""
    log = realtime_log(table)
    options = {**_PRODUCER, **client_options(log), "topic": log.topic, "checkpointLocation": checkpoint}
    register_follower(table)
    writer = records_of(frame, table).writeStream.format("kafka").options(**options).outputMode("update")
    if real_time is not None:
        writer = writer.trigger(realTime=real_time)  # type: ignore[call-overload]  # its overloads lack it
    with connector_needed():
        return writer.start()


def _value(frame: DataFrame, field: pa.Field, table: DynamicTable) -> Column:
    """A column of the table from the frame: cast, its default if it is missing, or refused if NOT NULL."""
    kind = spark_type(field.type)
    default = default_scalar(table.schema.field(field.name))
    name_in_frame = next((name for name in frame.columns if name.lower() == field.name.lower()), None)
    if name_in_frame is not None:
        column = _typed(frame, name_in_frame, field.name, kind, table)
    elif default is not None and pa.types.is_nested(field.type):
        column = sf.expr(default_value(table.schema.field(field.name))).cast(kind)
    elif default is not None:
        value = default.cast(pa.int32()) if pa.types.is_time(field.type) else default
        is_moment = pa.types.is_date(field.type) or pa.types.is_timestamp(field.type)
        column = sf.lit(str(value) if is_moment else value.as_py()).cast(kind)
    else:
        column = sf.lit(None).cast(kind)
    if (width := table.schema.padded_columns.get(field.name)) is not None:
        column = sf.when(sf.length(column) < width, sf.rpad(column, width, " ")).otherwise(column)
    if not field.nullable:
        wrong = f"NULL in column '{field.name}' of table {table.name}, which is NOT NULL: filter the row out"
        column = sf.coalesce(column, sf.raise_error(sf.lit(wrong)).cast(kind))
    return column


def _typed(frame: DataFrame, given: str, name: str, kind: SparkType, table: DynamicTable) -> Column:
    """A column of the frame in the type of a column of the table; fields of structs by name."""
    have, want = frame.schema[given].dataType, table.schema.field(name).type
    is_checked = checks_casts(frame.sparkSession)
    if have == kind or isinstance(have, DATETIMES) or (is_checked and not has_struct(want)):
        return cast(column_of(given), have, kind)
    ((_, found),) = columns_of(frame.select(column_of(given)).schema, allow_null=True)
    text = cast_text(quoted(given), found, want, FieldMatch.NAME, name, table.name, not is_checked)
    return sf.expr(text).cast(kind)


def _removes(frame: DataFrame, table: DynamicTable) -> Column:
    """True if a row deletes its key, by its row kind; unsupported kinds fail the query."""
    name = table.schema.options.get(ROWKIND_FIELD.key, ROW_KIND_COLUMN)
    if name not in frame.columns:
        return sf.lit(False)
    kind = column_of(name)
    takes = bool(table.schema.primary_keys) and engine_of(table.schema).retraction_fault(DELETE) is None
    wrong = sf.concat(
        sf.lit(f"table {table.name} does not take rows with '{name}' = "), sf.coalesce(kind, sf.lit("NULL"))
    )
    known = sf.when(kind.isin(NAMES[INSERT], NAMES[UPDATE_AFTER]), sf.lit(False))
    if takes:
        known = known.when(kind.isin(NAMES[UPDATE_BEFORE], NAMES[DELETE]), sf.lit(True))
    return known.otherwise(sf.raise_error(wrong).cast("boolean"))


def _object(fields: Sequence[pa.Field]) -> Column:
    """The JSON object of these columns, with explicit NULLs."""
    members = (encoded(column_of(f.name), f.type).alias(f.name) for f in fields)
    return sf.to_json(sf.struct(*members), {"ignoreNullFields": "false"})
