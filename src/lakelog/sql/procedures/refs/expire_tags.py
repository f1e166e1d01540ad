"""CALL sys.expire_tags."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from lakelog.io import clock
from lakelog.sql.runtime.procedure import Parameter, Procedure, age
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, older_than: timedelta | None = None) -> pa.Table:
    limit = None if older_than is None else clock.local_time(clock.now_ms()) - older_than
    expired = table.store.tags.expire(older_than=limit)
    return pa.table({"expired_tags": pa.array([tag.name for tag in expired], pa.string())})


EXPIRE_TAGS = Procedure("expire_tags", (Parameter("older_than", age),), _run)
"""Deletes tags whose time is over, and with ``older_than`` those without one that are older."""
