"""The target of an overwrite: the whole table, partitions by value, or those of the new rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidRequest, InvalidSchema, NotFound
from lakelog.filestore.commit.request import Overwrite
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.options.option import Options
from lakelog.options.overwrite import DYNAMIC_PARTITION_OVERWRITE
from lakelog.options.table import PARTITION_DEFAULT_NAME
from lakelog.paimon.rows.binary_row import encode_row
from lakelog.paimon.rows.instants import instant_of
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema, arrow_type
from lakelog.paimon.types.casts_from_text import parser
from lakelog.paimon.types.types import AtomicType, DataType
from lakelog.table.model.dynamic_table import DynamicTable

_WITHOUT_ZONE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(\.\d+)?)?)?")
_ZONE: Final = "+00:00"


@dataclass(frozen=True)
class OverwriteTarget:
    """The partitions that an overwrite replaces.

    ``values`` are those of some partition columns, in the order of the partition keys; () means all partitions.
    ``by_rows`` limits them to the partitions of the new rows.
    """

    values: tuple[tuple[str, Any], ...] = ()
    by_rows: bool = False

    def matches(self, partition: bytes, schema: TableSchema) -> bool:
        """True if a partition (serialised row) has the values."""
        values = dict(zip(schema.partition_keys, decode_partition(partition, schema), strict=True))
        kinds = {name: (schema.field(name).type,) for name, _ in self.values}
        # by their bytes: NaN is one value, and 0.0 and -0.0 are two
        return all(encode_row((values[n],), kinds[n]) == encode_row((value,), kinds[n]) for n, value in self.values)

    def replaced(self, live: Collection[bytes], written: Collection[bytes], schema: TableSchema) -> Overwrite | None:
        """The replacement of a commit, from the live partitions and those of the new rows. Pure.

        None if nothing is replaced. Raises InvalidRequest if rows are outside of the partitions.
        """
        for partition in written:
            if not self.matches(partition, schema):
                raise InvalidRequest(
                    f"a row of partition {_text(decode_partition(partition, schema), schema)} cannot be written: only "
                    f"{', '.join(f'{k} = {v!r}' for k, v in self.values)} is overwritten"
                )
        if self.by_rows:
            return Overwrite(frozenset(written)) if written else None
        if not self.values:
            return Overwrite(None)
        return Overwrite(frozenset(p for p in live if self.matches(p, schema)) | frozenset(written))


def overwrite_target(table: DynamicTable, values: Mapping[str, object] | None = None) -> OverwriteTarget:
    """The target of an overwrite with these values of partition columns (text, or of the column's type).

    Without values, ``dynamic-partition-overwrite`` decides between the whole table and the partitions of the new rows.
    Values of some partition columns only mean all partitions that have them, unless the option is set and true.
    Raises InvalidSchema for a column that is no partition column, InvalidRequest for a value that does not fit.
    """
    schema = table.schema
    is_dynamic = Options(table.options).need(DYNAMIC_PARTITION_OVERWRITE)
    if values:
        chosen = partition_values(schema, values, table.name)
        is_part = len(chosen) < len(schema.partition_keys)
        return OverwriteTarget(chosen, is_part and is_dynamic and DYNAMIC_PARTITION_OVERWRITE.key in table.options)
    return OverwriteTarget((), bool(schema.partition_keys) and is_dynamic)


def partition_values(schema: TableSchema, values: Mapping[str, object], table: str) -> tuple[tuple[str, Any], ...]:
    """Values of partition columns as a manifest has them, in the order of the partition keys; text is parsed.

    Raises InvalidSchema for a column that is no partition column, InvalidRequest for a value that does not fit.
    """
    by_fold = {name.lower(): name for name in schema.partition_keys}
    chosen: dict[str, object] = {}
    for name, value in values.items():
        own = by_fold.get(name.lower())
        if own is None:
            keys = ", ".join(schema.partition_keys) or "none"
            raise InvalidSchema(f"'{name}' is not a partition column of table {table}; its partition columns: {keys}")
        chosen[own] = _typed(schema, own, value)
    return tuple((name, chosen[name]) for name in schema.partition_keys if name in chosen)


def existing_partitions(
    table: DynamicTable, live: Collection[bytes], specs: Sequence[Mapping[str, object]], if_exists: bool
) -> frozenset[bytes]:
    """The live partitions with the values of one of the specs. Raises NotFound for a spec without any."""
    partitions_found: set[bytes] = set()
    for spec in specs:
        target = OverwriteTarget(partition_values(table.schema, spec, table.name))
        matching = {p for p in live if target.matches(p, table.schema)}
        if not matching and not if_exists:
            text = ", ".join(f"{k} = {v!r}" for k, v in target.values)
            raise NotFound(f"table {table.name} has no partition {text}: write IF EXISTS to ignore it")
        partitions_found |= matching
    return frozenset(partitions_found)


def partitions_meeting(schema: TableSchema, live: Collection[bytes], condition: Predicate) -> frozenset[bytes]:
    """The live partitions that meet a condition on partition columns alone."""
    keys, ordered = schema.partition_keys, sorted(live)
    if not ordered:
        return frozenset()
    columns = zip(*(decode_partition(p, schema) for p in ordered), strict=True)
    kinds = arrow_schema(schema.select(keys))
    values = [pa.array(column, kind) for column, kind in zip(columns, kinds.types, strict=True)]
    rows = pa.Table.from_arrays([*values, pa.array(ordered, pa.binary())], names=[*keys, "_lakelog_partition"])
    return frozenset(rows.filter(condition.to_arrow(kinds)).column("_lakelog_partition").to_pylist())


def partition_text(schema: TableSchema, name: str, text: str | None, zone: tzinfo | None = None) -> str | None:
    """The text of a partition value, as SHOW PARTITIONS prints it, in the form that every engine reads alike.

    The name of the NULL partition (``partition.default-name``) is None, and a TIMESTAMP without a zone is one of
    ``zone``, or of this machine, in UTC. Other text stays as it is.
    """
    if text is None or text == Options(schema.options).need(PARTITION_DEFAULT_NAME):
        return None
    return _in_utc(text, schema.field(name).type, zone)


def _in_utc(text: str, kind: DataType, zone: tzinfo | None) -> str:
    """The text of a TIMESTAMP without a zone with that of UTC; any other text as it is."""
    match = _WITHOUT_ZONE.fullmatch(text.strip())
    if match is None or not isinstance(kind, AtomicType) or kind.root != "TIMESTAMP_LTZ":
        return text
    fraction = match[1] or ""
    try:
        wall = datetime.fromisoformat(text.strip().removesuffix(fraction))
        wall = wall.replace(tzinfo=zone) if zone is not None else instant_of(wall)
        return f"{wall.replace(tzinfo=None) - (wall.utcoffset() or timedelta())}{fraction}{_ZONE}"
    except (ValueError, OverflowError):
        return text


def partition_value(name: str, column: DataType, text: str) -> Any:
    """The value of a partition column, from its text. Raises InvalidRequest for a text that is none."""
    kind = arrow_type(column)
    try:
        if pa.types.is_string(kind):
            return text
        if pa.types.is_time(kind) and isinstance(column, AtomicType):
            return pa.scalar(parser(column)(text), pa.int32()).cast(kind).as_py()
        return pa.scalar(_in_utc(text, column, None)).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError) as why:
        raise InvalidRequest(f"partition column '{name}' is {kind}, {text!r} does not fit: {why}") from None


def _typed(schema: TableSchema, name: str, value: object) -> Any:
    column = schema.field(name).type
    if isinstance(value, str):
        text = partition_text(schema, name, value)
        if text is not None and (width := schema.padded_columns.get(name)):
            return text.rstrip(" ").ljust(width)
        return None if text is None else partition_value(name, column, text)
    if isinstance(value, datetime) and isinstance(column, AtomicType) and column.root == "TIMESTAMP_LTZ":
        value = instant_of(value)  # without a zone: a local time, as in rows and filters
    try:
        return pa.scalar(value, arrow_type(column)).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as why:
        kind = arrow_type(column)
        raise InvalidRequest(f"partition column '{name}' is {kind}, {value!r} does not fit: {why}") from None


def _text(values: Sequence[Any], schema: TableSchema) -> str:
    return ", ".join(f"{k} = {v!r}" for k, v in zip(schema.partition_keys, values, strict=True))
