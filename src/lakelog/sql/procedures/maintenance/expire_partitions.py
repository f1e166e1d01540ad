"""CALL sys.expire_partitions."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from lakelog.options.retention import (
    PARTITION_EXPIRATION_MAX,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    RETENTION_OPTIONS,
)
from lakelog.sql.runtime.procedure import Parameter, Procedure, duration, number, options_among, text
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.partition_expiry import expire_partitions


def _run(
    table: DynamicTable,
    expiration_time: timedelta | None = None,
    expire_strategy: str | None = None,
    timestamp_formatter: str | None = None,
    timestamp_pattern: str | None = None,
    max_expires: int | None = None,
) -> pa.Table:
    given = {
        PARTITION_TIMESTAMP_FORMATTER.key: timestamp_formatter,
        PARTITION_TIMESTAMP_PATTERN.key: timestamp_pattern,
        PARTITION_EXPIRATION_MAX.key: max_expires,
    }
    table = table.with_hints({key: str(value) for key, value in given.items() if value is not None})
    expired = expire_partitions(table, expiration_time, expire_strategy)
    texts = [", ".join(f"{key}={value}" for key, value in values.items()) for values in expired]
    return pa.table({"expired_partitions": pa.array(texts, pa.string())})


EXPIRE_PARTITIONS = Procedure(
    "expire_partitions",
    (
        Parameter("expiration_time", duration),
        Parameter("expire_strategy", text),
        Parameter("timestamp_formatter", text),
        Parameter("timestamp_pattern", text),
        Parameter("max_expires", number),
        Parameter("options", options_among(RETENTION_OPTIONS)),
    ),
    _run,
)
"""Drops partitions that are older than ``partition.expiration-time``."""
