"""The changes in records of several schemas with Spark's own expressions: columns are found by id, as in ``LogScan``.

An ALTER TABLE may change the meaning of a name (RFC 17). A query knows the schemas that the table had when it
started. A record of a newer one stops it with a sentence that says how to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema, arrow_type
from lakelog.paimon.types.evolution import same_type
from lakelog.paimon.types.types import AtomicType, DataField, DataType
from lakelog.spark.realtime.json_columns import decoded, json_type, spark_type
from lakelog.table.log.record_schemas import RecordSchemas

_WIDER: Final = (("TINYINT", "SMALLINT", "INT", "BIGINT"), ("FLOAT", "DOUBLE"))
"""Types whose casts are those of Spark."""
_NO_ID: Final = -1

Source = tuple[DataField, DataField | None]
"""A column of the table, and the column of a record that contains it (None: it has none)."""


def has_one_layout(schemas: RecordSchemas) -> bool:
    """True if all known records of a log have the table's own names and types."""
    return schemas.own_id is None


def changes_by_id(text: Column, schema_id: Column, schemas: RecordSchemas, columns: Sequence[str]) -> Column:
    """The change in a value: ``before`` and ``after`` with these columns of the table, and ``op``.

    ``schema_id`` is that of the record's header, NULL without one.
    """
    layouts: dict[tuple[Source, ...], list[int]] = {}
    for number, written in _known(schemas):
        layouts.setdefault(_sources(written, schemas.table.schema, columns), []).append(number)
    own_id = sf.coalesce(schema_id, sf.lit(_NO_ID))
    changes: Column | None = None
    for sources, ids in layouts.items():
        is_here = own_id.isin(*ids)
        value = _change(sf.when(is_here, text), sources, schemas.table.name)
        changes = sf.when(is_here, value) if changes is None else changes.when(is_here, value)
    assert changes is not None
    return changes.otherwise(sf.raise_error(sf.lit(altered(schemas.table.name))).cast(_type_of(columns, schemas)))


def altered(table: str) -> str:
    """The error message of a query that meets a record with columns that it does not know."""
    return f"table {table} was changed by ALTER TABLE, and its log has records with the new columns: restart the query"


def _known(schemas: RecordSchemas) -> list[tuple[int, TableSchema]]:
    first, schema = schemas.first, schemas.table.schema
    later = schemas.table.store.schemas.own(range(first.id + 1, schema.id))
    return [(_NO_ID, first), *((field.id, field) for field in later), (schema.id, schema)]


def _sources(written: TableSchema, table: TableSchema, columns: Sequence[str]) -> tuple[Source, ...]:
    by_id = {field.id: field for field in written.fields}
    return tuple((field, by_id.get(field.id)) for field in table.select(columns))


def _change(text: Column, sources: Sequence[Source], table: str) -> Column:
    fields = [StructField(was.name, json_type(arrow_type(was.type))) for _, was in sources if was is not None]
    image = StructType(fields)
    parsed = StructType([StructField(n, image) for n in ("before", "after")] + [StructField("op", StringType())])
    change = sf.from_json(text, parsed, {"mode": "FAILFAST"})

    def row(name: str) -> Column:
        value = change.getField(name)
        columns = [_column(value, now, was, table).alias(now.name) for now, was in sources]
        return sf.when(value.isNotNull(), sf.struct(*columns)).alias(name)

    return sf.struct(row("before"), row("after"), change.getField("op").alias("op"))


def _column(image: Column, now: DataField, was: DataField | None, table: str) -> Column:
    kind = spark_type(arrow_type(now.type))
    if was is None:
        return sf.lit(None).cast(kind)
    value = decoded(image.getField(was.name), arrow_type(was.type))
    if same_type(was.type, now.type):
        return value
    if _is_wider(was.type, now.type):
        return value.cast(kind)
    wrong = (
        f"column '{now.name}' of table {table} had another type in older records of its log, which the real-time path "
        "cannot convert: use read_stream, or start after these records"
    )
    return sf.when(value.isNotNull(), sf.raise_error(sf.lit(wrong)).cast(kind))


def _is_wider(old: DataType, new: DataType) -> bool:
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    return any(
        old.root in roots and new.root in roots and roots.index(old.root) < roots.index(new.root) for roots in _WIDER
    )


def _type_of(columns: Sequence[str], schemas: RecordSchemas) -> StructType:
    fields = arrow_schema(schemas.table.schema.select(columns))
    image = StructType([StructField(f.name, spark_type(f.type)) for f in fields])
    return StructType([StructField("before", image), StructField("after", image), StructField("op", StringType())])
