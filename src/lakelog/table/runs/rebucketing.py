"""Moves rows to the current buckets of their partition, after ALTER TABLE changed their number (format sheet 11)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.options.table import BUCKET
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN, StagedRun
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.runs.runs import run_from_ipc, run_to_ipc


def check_bucket_count(table: DynamicTable, partitions: Collection[bytes]) -> None:
    """Raises InvalidRequest if one of the partitions has another number of buckets.

    Called by a task before its rows can be decided. Reads the newest snapshot only if the table's number of buckets has
    ever changed.
    """
    if not partitions or not _was_changed(table, table.schema.id):
        return
    total = table.schema.num_buckets
    for entry in table.store.live_entries(table.store.latest_snapshot(), partitions):
        if entry.total_buckets != total:
            keys = table.schema.partition_keys
            named = zip(keys, decode_partition(entry.partition, table.schema), strict=True)
            where = ", ".join(f"{k} = {v!r}" for k, v in named) or "the table"
            raise InvalidRequest(
                f"table {table.name}: {where} has {entry.total_buckets} buckets, but 'bucket' is {total} now: run "
                "INSERT OVERWRITE on it, or call Table.rescale(), before you add rows"
            )


def bucket_totals(table: DynamicTable, records: Sequence[EpochRecord], latest: Snapshot | None) -> dict[bytes, int]:
    """The bucket counts of the records' partitions that differ from the table's, from their files.

    Called before rows of decided epochs are read or sealed. Empty, without a read, for a table whose number of buckets
    has never changed.
    """
    if table.schema.num_buckets < 1 or not records or not _was_changed(table, table.store.schemas.newest_id()):
        return {}
    partitions = {run.partition for r in records for a in r.attempts for run in a.runs}
    live = table.store.live_entries(latest, partitions)
    return {e.partition: e.total_buckets for e in live if e.total_buckets != table.schema.num_buckets}


def in_buckets(records: Sequence[EpochRecord], table: DynamicTable, totals: Mapping[bytes, int]) -> list[EpochRecord]:
    """The records with every row in its bucket of the partition; ``totals`` are from ``bucket_totals``.

    Epochs may have been decided before ALTER TABLE, or before a partition was rescaled. Their rows keep their order.
    Rows of large runs are read from their files, which are unreferenced afterwards. Records that fit, nearly always all
    of them, are returned unchanged.
    """
    wanted = table.schema.num_buckets
    if wanted < 1:
        return list(records)

    def fitting(run: StagedRun) -> Iterator[StagedRun]:
        total = totals.get(run.partition, wanted)
        return _split(run, table, total) if _total_of(run, table) != total else iter((run,))

    if all(_total_of(run, table) == totals.get(run.partition, wanted) for run in _runs(records)):
        return list(records)
    return [
        replace(
            r, attempts=tuple(replace(a, runs=tuple(new for run in a.runs for new in fitting(run))) for a in r.attempts)
        )
        for r in records
    ]


def _runs(records: Sequence[EpochRecord]) -> Iterator[StagedRun]:
    return (run for r in records for a in r.attempts for run in a.runs)


def _total_of(run: StagedRun, table: DynamicTable) -> int:
    """The number of buckets that a run was made for."""
    return table.store.schemas.get(run.files[0].schema_id if run.files else run.schema_id).num_buckets


def _split(run: StagedRun, table: DynamicTable, total: int) -> Iterator[StagedRun]:
    """The rows of a run as inline runs of their buckets among ``total``."""
    parts: list[tuple[pa.Table, TableSchema]] = []
    if run.inline:
        parts.append((run_from_ipc(run.inline), table.store.schemas.get(run.schema_id)))
    for file in run.whole_files:
        rows = table.store.file_rows(run.partition, run.bucket, file, ORDER_COLUMN, KIND_COLUMN, -run.delta)
        parts.append((rows, table.schema))
    for rows, schema in parts:
        as_wanted = replace(schema, options={**schema.options, BUCKET.key: str(total)})
        values = rows.select(schema.field_names).combine_chunks()
        buckets = bucket_of_rows(values.to_batches()[0], as_wanted)
        for bucket in np.unique(buckets).tolist():
            rows_of_bucket = rows.take(pa.array(np.flatnonzero(buckets == bucket)))
            moved = StagedRun(
                run.partition, bucket, rows_of_bucket.num_rows, run_to_ipc(rows_of_bucket), schema_id=schema.id
            )
            yield replace(moved, emits_changelog=run.emits_changelog, retractions=run.retractions)


def _was_changed(table: DynamicTable, newest: int) -> bool:
    schema = table.schema
    key, rebucketed = (schema.id, schema.time_millis, newest), table.identity.memory.rebucketed
    was_changed = rebucketed.get(key)
    if was_changed is None:
        former = table.store.schemas.own(range(newest + 1))
        was_changed = rebucketed[key] = any(one.num_buckets != schema.num_buckets for one in former)
    return was_changed
