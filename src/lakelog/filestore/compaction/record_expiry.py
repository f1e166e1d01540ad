"""Record-level expiry: a compaction drops rows that are too old by a time column (format sheet 12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidOption
from lakelog.io import clock
from lakelog.options.option import Options
from lakelog.options.retention import RECORD_EXPIRE_TIME, RECORD_TIME_FIELD
from lakelog.paimon.metadata.column_stats import stats_bounds
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField, type_keyword

_ROOTS: Final = ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ")
_MILLISECONDS_FROM: Final = 1_000_000_000_000
"""BIGINT values from this one on are milliseconds, smaller ones are seconds."""


@dataclass(frozen=True)
class RecordExpiry:
    """The rule for rows older than ``record-level.expire-time``; ``oldest`` is in seconds since 1970."""

    schema: TableSchema
    column: str
    oldest: int

    @staticmethod
    def of(schema: TableSchema, now: Callable[[], int] = clock.now_ms) -> RecordExpiry | None:
        """The current rule of a table with a primary key; None if its rows do not expire. ``now`` is in milliseconds.

        Raises InvalidOption for a time field that is missing or has an unsupported type.
        """
        check_time_column(schema)
        options = Options(schema.options)
        age = options.get_typed(RECORD_EXPIRE_TIME)
        if age is None or not schema.is_keyed:
            return None
        name = options.get_typed(RECORD_TIME_FIELD)
        if name is None:
            raise InvalidOption(
                f"option '{RECORD_EXPIRE_TIME.key}' = '{options.get(RECORD_EXPIRE_TIME.key)}' needs the column of the "
                f"rows' times in '{RECORD_TIME_FIELD.key}': {_fitting(schema)}"
            )
        return RecordExpiry(schema, name, now() // 1000 - int(age.total_seconds()))

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that have not expired; rows without a time stay."""
        seconds = _seconds(batch.column(batch.schema.get_field_index(self.column)))
        young = pc.greater_equal(seconds, pa.scalar(self.oldest, pa.int64()))
        return batch.filter(pc.fill_null(young, True))

    def has_old(self, file: DataFileMeta) -> bool:
        """Returns whether the statistics of a file show an expired row; False if they are unknown."""
        if file.schema_id != self.schema.id or file.value_stats_cols is not None:
            return False
        fields = self.schema.fields
        at = self.schema.field_names.index(self.column)
        low, _, _ = stats_bounds(file.value_stats, [f.type for f in fields], at)
        seconds = _as_seconds(low)
        return seconds is not None and seconds < self.oldest


def check_time_column(schema: TableSchema) -> None:
    """Raises InvalidOption if ``record-level.time-field`` names a column that has no times, or none of the table."""
    name = Options(schema.options).get_typed(RECORD_TIME_FIELD)
    if name is not None and not (name in schema.field_names and _has_times(schema.field(name))):
        kind = type_keyword(schema.field(name).type) if name in schema.field_names else "no column of the table"
        raise InvalidOption(
            f"option '{RECORD_TIME_FIELD.key}' = '{name}' must be a column of type INT, BIGINT or TIMESTAMP, and it is "
            f"{kind}: {_fitting(schema)}"
        )


def _has_times(field: DataField) -> bool:
    return isinstance(field.type, AtomicType) and field.type.root in _ROOTS


def _fitting(schema: TableSchema) -> str:
    names = [field.name for field in schema.fields if _has_times(field)]
    return f"name one of {', '.join(names)}" if names else "add such a column first"


def _seconds(values: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(values.type):
        return pc.divide(pc.cast(pc.cast(values, pa.timestamp("ms"), safe=False), pa.int64()), 1000)
    seconds = pc.cast(values, pa.int64())
    return pc.if_else(pc.greater_equal(seconds, _MILLISECONDS_FROM), pc.divide(seconds, 1000), seconds)


def _as_seconds(value: Any) -> int | None:
    if isinstance(value, datetime):
        return int(value.replace(tzinfo=value.tzinfo or UTC).timestamp())
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[s]").astype(np.int64))
    if isinstance(value, int):
        return value // 1000 if value >= _MILLISECONDS_FROM else value
    return None
