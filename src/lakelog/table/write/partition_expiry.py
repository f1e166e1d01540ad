"""Expiry of old partitions: one commit of the files, or deletes of their rows for the readers of a log."""

from __future__ import annotations

from datetime import timedelta

from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.filestore.gc.partition_expiry import PartitionRule, pick_old_partitions
from lakelog.io.clock import local_time
from lakelog.io.metrics import METER
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.options.metrics import PARTITIONS_EXPIRED
from lakelog.options.retention import PARTITION_EXPIRATION_STRATEGY, PARTITION_EXPIRATION_TIME
from lakelog.paimon.rows.partition import decode_partition
from lakelog.table.maintenance.retention import drop_old_partitions
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.overwrite import remove_partitions
from lakelog.table.write.replaced_rows import check_overwrite, one_overwrite


def expire_partitions(
    table: DynamicTable, expiration_time: timedelta | None = None, strategy: str | None = None
) -> list[dict[str, object]]:
    """Drops old partitions, all or none; returns their values by column.

    Called on request and by the optimizer; writers call ``drop_old_partitions`` for tables without a log of input rows.
    Raises InvalidRequest if neither the table nor the call sets the age, or if the table has no partitions, and
    UnsupportedFeature as ``check_overwrite``, or for ``update-time`` with a log of input rows.
    """
    check_overwrite(table)
    rule = PartitionRule.of(table.options, expiration_time, strategy)
    if rule is None:
        raise InvalidRequest(
            f"table {table.name} has no partition retention: set '{PARTITION_EXPIRATION_TIME.key}', or give an "
            "expiration time"
        )
    dropped = _drop_rows(table, rule) if table.emits_log else drop_old_partitions(table, rule)
    keys = table.schema.partition_keys
    return [dict(zip(keys, decode_partition(partition, table.schema), strict=True)) for partition in dropped]


def _drop_rows(table: DynamicTable, rule: PartitionRule) -> list[bytes]:
    """Drops old partitions of a table with a log of input rows, by a delete of each row.

    A partition that changes meanwhile is still old by its values, but not by its last change.
    """
    if not rule.is_by_values:
        raise UnsupportedFeature(
            f"table {table.name} has a log of input rows, so the rows of old partitions are deleted one by one, and "
            f"'{PARTITION_EXPIRATION_STRATEGY.key}' = '{rule.strategy}' could delete rows that are written meanwhile: "
            f"use '{PARTITION_EXPIRATION_STRATEGY.default}'"
        )
    if not table.schema.partition_keys:
        raise InvalidRequest(f"table {table.name} is not partitioned, so no partition can expire")
    with one_overwrite(table):
        live = table.store.live_entries(table.store.latest_snapshot())
        now = local_time(storage_now_ms(table.io, table.path))
        old = pick_old_partitions(live, table.schema, rule, now)
        remove_partitions(table, frozenset(old))
    METER.add(PARTITIONS_EXPIRED, len(old), table=table.name)
    return old
