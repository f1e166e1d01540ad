"""Refuses rows for partitions that still have another number of buckets than the table (format sheet 11)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lakelog.errors import InvalidRequest
from lakelog.spec.partition import decode_partition
from lakelog.table.dynamic_table import DynamicTable

_CHANGED: Final[dict[tuple[str, int, int], bool]] = {}
"""(table, schema id, its time) → whether a schema before it had another number of buckets."""


def check_bucket_count(table: DynamicTable, partitions: Collection[bytes]) -> None:
    """Raises InvalidRequest when one of the partitions has another number of buckets.

    Called by a task before its rows can be decided: the seal of such an epoch would never succeed. Costs a look into
    the newest snapshot, and only when the table's number of buckets was changed once.
    """
    if not partitions or not _was_changed(table):
        return
    wanted = table.schema.num_buckets
    for entry in table.store.live_entries(table.store.latest_snapshot(), partitions):
        if entry.total_buckets != wanted:
            keys = table.schema.partition_keys
            named = zip(keys, decode_partition(entry.partition, table.schema), strict=True)
            where = ", ".join(f"{k} = {v!r}" for k, v in named) or "the table"
            raise InvalidRequest(
                f"table {table.name}: {where} has {entry.total_buckets} buckets, but 'bucket' is {wanted} now: "
                f"INSERT OVERWRITE it, or call Table.rescale(), before rows are added"
            )


def _was_changed(table: DynamicTable) -> bool:
    schema = table.schema
    key = (table.path, schema.id, schema.time_millis)
    if key not in _CHANGED:
        schemas = table.store.schemas
        _CHANGED[key] = any(schemas.get(i).num_buckets != schema.num_buckets for i in range(schema.id))
    return _CHANGED[key]
