"""CALL sys.expire_partitions."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, duration, text
from lakelog.table.maintenance.retention import expire_partitions
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, expiration_time: timedelta | None = None, expire_strategy: str | None = None) -> pa.Table:
    gone = expire_partitions(table, expiration_time, expire_strategy)
    texts = [", ".join(f"{key}={value}" for key, value in values.items()) for values in gone]
    return pa.table({"expired_partitions": pa.array(texts, pa.string())})


EXPIRE_PARTITIONS = Procedure(
    "expire_partitions", (Parameter("expiration_time", duration), Parameter("expire_strategy", text)), _run
)
"""Drops partitions that are older than ``partition.expiration-time``."""
