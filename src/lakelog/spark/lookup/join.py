"""Joins a DataFrame, streaming or not, with the newest rows of a keyed table (``lake.lookup_join``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    IntegralType,
    StringType,
    StructField,
    StructType,
)

from lakelog.errors import InvalidRequest, InvalidSchema
from lakelog.io.names import new_attempt
from lakelog.options.lookup import LOOKUP_NAME, LOOKUP_SHUFFLE
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.spark.compat.arrow import map_in_arrow
from lakelog.spark.compat.kinds import try_cast
from lakelog.spark.compat.partition_ids import by_partition_id
from lakelog.spark.lookup.task import LookupTask
from lakelog.spark.runtime.types import arrow_for_spark, column_of, quoted, spark_schema
from lakelog.spark.write.shuffle import with_bucket
from lakelog.sql.runtime.query_plan import LOOKUP_FOUND, LOOKUP_KEY, Lookup
from lakelog.table.lookup.index import LookupSpec
from lakelog.table.lookup.stats import check_name
from lakelog.table.model.dynamic_table import DynamicTable

On = str | Sequence[str] | Mapping[str, str]
"""Columns of both sides, or column of the frame → column of the table."""

_BUCKET: Final = "_lakelog_bucket"
_KEY: Final = "_lakelog_bucket_key_"


@dataclass(frozen=True)
class LookupJoin:
    """A lookup join of frames with one table: ``on`` are pairs (column of the frame, column of the table)."""

    spec: LookupSpec
    probes: tuple[str, ...]
    name: str
    labels: tuple[str, ...] = ()

    @staticmethod
    def of(table: DynamicTable, on: Sequence[tuple[str, str]], columns: Sequence[str]) -> LookupJoin:
        """The join. Raises InvalidRequest, InvalidSchema as ``LookupSpec.check``."""
        twice = [own for at, (_, own) in enumerate(on) if own in [name for _, name in on[:at]]]
        if twice:
            raise InvalidRequest(f"column '{twice[0]}' of table {table.name} is joined on twice")
        spec = LookupSpec(table, tuple(own for _, own in on), tuple(columns))
        spec.check()
        name = table.options.get_typed(LOOKUP_NAME) or new_attempt()
        check_name(name)
        return LookupJoin(spec, tuple(probe for probe, _ in on), name)

    def flat(self, frame: DataFrame, is_left: bool, names: Sequence[str]) -> DataFrame:
        """The frame's columns and those of the matched rows, named ``names``."""
        schema = self._found(names, nullable=is_left)
        return self._run(frame, frame.columns, schema, schema, is_left, None)

    def nested(self, frame: DataFrame, kept: Sequence[str], name: str) -> DataFrame:
        """Columns ``kept`` of the frame, and a column of this name: the array of matched rows."""
        schema = self._found(self.spec.columns, nullable=False)
        array = StructType([StructField(name, ArrayType(schema, containsNull=False), nullable=False)])
        return self._run(frame, kept, schema, array, True, name)

    def _found(self, names: Sequence[str], nullable: bool) -> StructType:
        own = spark_schema(self.spec.schema).fields
        return StructType([StructField(n, f.dataType, f.nullable or nullable) for n, f in zip(names, own, strict=True)])

    def _run(
        self,
        frame: DataFrame,
        kept: Sequence[str],
        found: StructType,
        more: StructType,
        is_left: bool,
        nested: str | None,
    ) -> DataFrame:
        self._check_types(frame)
        schema = StructType([*(frame.schema[name] for name in kept), *more.fields])
        routed = self._routed(frame)
        bucket = _BUCKET if _BUCKET in routed.columns else None
        target = arrow_for_spark(found)
        task = LookupTask(self.spec, self.name, self.probes, bucket, tuple(kept), target, is_left, nested)

        def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        return map_in_arrow(routed, joined, schema)

    def _check_types(self, frame: DataFrame) -> None:
        types = spark_schema(self.spec.key_schema)
        for probe, label, own in zip(self.probes, self.labels or self.probes, types.fields, strict=True):
            if probe not in frame.columns:
                raise InvalidSchema(f"the frame has no column '{probe}'; it has: {', '.join(frame.columns)}")
            kind = frame.schema[probe].dataType
            both_whole = isinstance(kind, IntegralType) and isinstance(own.dataType, IntegralType)
            if kind.simpleString() != own.dataType.simpleString() and not both_whole:
                raise InvalidSchema(
                    f"'{label}' ({kind.simpleString()}) is compared with '{own.name}' "
                    f"({own.dataType.simpleString()}) of table {self.spec.table.name}: cast it to this type first"
                )

    def _routed(self, frame: DataFrame) -> DataFrame:
        """The frame with rows of one table bucket in one task, and the bucket column, if the join determines it."""
        table = self.spec.table
        buckets = table.schema.num_buckets
        if buckets < 2 or not self.spec.determines_bucket or table.options.need(LOOKUP_SHUFFLE) == "none":
            return frame
        if any(pa.types.is_timestamp(field.type) or pa.types.is_time(field.type) for field in self.spec.key_schema):
            return frame  # Spark's values may be finer than the table's, without a bucket there
        columns = [quoted(name) for name in frame.columns]
        probe_of = dict(zip(self.spec.on, self.probes, strict=True))
        types = spark_schema(arrow_schema(table.schema.select(table.schema.bucket_keys)))
        names = {field.name: f"{_KEY}{at}" for at, field in enumerate(types.fields)}
        lengths = table.schema.padded_columns
        values = ((f.name, _never_null(probe_of[f.name], f.dataType)) for f in types.fields)
        filled = ((name, sf.rpad(v, lengths[name], " ") if name in lengths else v) for name, v in values)
        keys = [value.alias(names[name]) for name, value in filled]
        placed = with_bucket(frame.select(*columns, *keys), table, _BUCKET, names).select(*columns, _BUCKET)
        tasks = min(buckets, int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or buckets))
        return by_partition_id(placed, tasks, sf.pmod(sf.col(_BUCKET), sf.lit(tasks)).cast("int"))


def _never_null(name: str, kind: DataType) -> Column:
    """A column with the table's type; NULL and invalid values match nothing, so any bucket is correct."""
    value = column_of(name)
    zero: object = 0
    if isinstance(kind, StringType):
        zero = ""
    elif isinstance(kind, BinaryType):
        zero = bytearray()
    elif isinstance(kind, BooleanType):
        zero = False
    elif isinstance(kind, DateType):
        zero = "1970-01-01"
    return sf.coalesce(try_cast(value, kind, quoted(name)), sf.lit(zero).cast(kind))


def join_frame(
    frame: DataFrame, table: DynamicTable, on: On, how: str, columns: Sequence[str] | None, prefix: str
) -> DataFrame:
    """The frame joined with the newest rows of a table; see ``Lake.lookup_join``."""
    if how not in ("inner", "left"):
        raise InvalidRequest(f"how='{how}' is not supported: a lookup join is 'inner' or 'left'")
    pairs = _pairs(on)
    chosen = [name for name in table.schema.field_names if name not in {own for _, own in pairs}]
    chosen = chosen if columns is None else list(columns)
    join = LookupJoin.of(table, pairs, chosen)
    names = [prefix + name for name in chosen]
    folded = {name.lower() for name in frame.columns}
    clash = [name for at, name in enumerate(names) if name.lower() in folded | {n.lower() for n in names[:at]}]
    if clash:
        raise InvalidRequest(
            f"the result would have two columns '{clash[0]}': choose the table's columns (columns=[…]), or give them a "
            f"prefix (prefix='{table.location.identifier.table}_')"
        )
    return join.flat(frame, how == "left", names)


def _pairs(on: On) -> list[tuple[str, str]]:
    if isinstance(on, str):
        return [(on, on)]
    return list(on.items()) if isinstance(on, Mapping) else [(name, name) for name in on]


def lookup_frame(frame: DataFrame, table: DynamicTable, lookup: Lookup) -> DataFrame:
    """The result of a lookup join in SQL."""
    probes = [f"{LOOKUP_KEY}{at}" for at in range(len(lookup.on))]
    columns = [name for name in lookup.columns or table.schema.field_names if name in table.schema.field_names]
    join = LookupJoin.of(table, list(zip(probes, lookup.on, strict=True)), columns or list(lookup.on[:1]))
    kept = [name for name in frame.columns if name not in probes]
    return replace(join, labels=lookup.labels).nested(frame, kept, LOOKUP_FOUND)
