"""Procedures that compact, expire and clean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pyarrow as pa

from lakelog.errors import CommitConflict, InvalidRequest
from lakelog.options.compatibility import INERT
from lakelog.options.retention import (
    PARTITION_EXPIRATION_MAX,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    RETENTION_OPTIONS,
)
from lakelog.options.table import BUCKET, TABLE_OPTIONS
from lakelog.paimon.schema.changes import SchemaChange, SetOption
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.runtime.ports import Engine
from lakelog.sql.runtime.procedure import (
    Value,
    age,
    duration,
    flag,
    ignored,
    number,
    options_among,
    partition_specs,
    procedure,
    text,
)
from lakelog.sql.runtime.statement import counts_row
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.table.maintenance import retention
from lakelog.table.maintenance.compaction_commit import CompactionSummary, compact_manifests
from lakelog.table.maintenance.compaction_job import chosen_partitions, compact_table, idle_partitions
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write import partition_expiry
from lakelog.table.write.clustering import ClusteringOrder, files_to_sort
from lakelog.table.write.rescale import rescale as rewrite_buckets

UNORDERED: Final = "none"
_PREFIXES: Final = ("compaction.", "num-sorted-run.", "target-file-size", "file.", "changelog-file.", "metadata.stats-")
_OPTIONS: Final = (
    *(option for option in TABLE_OPTIONS.options if option.key.startswith(_PREFIXES) and "write" in option.scope),
    *(option for option in INERT if option.key == "sink.parallelism"),
)
"""Options of a table that may be given for one call."""
_ATTEMPTS: Final = 5
"""Maximum attempts if other commits replace the same files."""


def strategy(value: Value) -> bool:
    """Parses Apache Paimon's ``full`` or ``minor``; True for a full compaction."""
    name = text(value).lower()
    if name not in ("full", "minor"):
        raise ValueError("write 'full' or 'minor'")
    return name == "full"


def columns(value: Value) -> tuple[str, ...]:
    """Names of columns, like ``a, `b c```."""
    cursor = TokenStream.over(text(value))
    names = cursor.names("a column")
    cursor.expect_end()
    return names


@procedure(
    full=flag,
    partitions=partition_specs,
    where=text,
    compact_strategy=strategy,
    order_strategy=text,
    order_by=columns,
    partition_idle_time=duration,
    options=options_among(_OPTIONS),
)
def compact(
    table: DynamicTable,
    engine: Engine,
    full: bool = True,
    partitions: Sequence[Mapping[str, str]] = (),
    where: str | None = None,
    compact_strategy: bool | None = None,
    order_strategy: str = UNORDERED,
    order_by: tuple[str, ...] = (),
    partition_idle_time: timedelta | None = None,
) -> pa.Table:
    """Merges the files of every bucket, or of some partitions; with ``full => false`` only where there are too many.

    With an ``order_strategy`` it writes all files of a table without a primary key again, its rows laid out by columns.
    """
    if table.hints:  # planners and writers of files, also of other processes, take options from the schema
        table = table.with_schema(replace(table.schema, options={**table.schema.options, **table.hints}))
    condition = None if where is None else parse_filter(where, table.schema)
    chosen = chosen_partitions(table, partitions, condition)
    if partition_idle_time is not None:
        chosen = idle_partitions(table, partition_idle_time, chosen)
    strategy = order_strategy.lower()
    if strategy != UNORDERED:
        if not full or compact_strategy is False:
            raise InvalidRequest("order_strategy rewrites all files: leave out full and compact_strategy")
        return _answer(_sort(table, engine, ClusteringOrder(strategy, order_by), chosen))
    if order_by:
        raise InvalidRequest("order_by needs an order_strategy: write 'order' or 'zorder'")
    full = full if compact_strategy is None else compact_strategy
    return _answer(compact_table(table, full, chosen, engine.executor()))


def _sort(
    table: DynamicTable, engine: Engine, layout: ClusteringOrder, chosen: frozenset[bytes] | None
) -> CompactionSummary:
    for attempt in range(_ATTEMPTS):
        files = files_to_sort(table, layout, chosen)
        if not files.names:
            return CompactionSummary()
        try:
            engine.write_sorted(files)
            break
        except CommitConflict:
            if attempt == _ATTEMPTS - 1:
                raise
    latest = table.store.latest_snapshot()
    live = [e for e in table.store.live_entries(latest) if chosen is None or e.partition in chosen]
    buckets = {(entry.partition, entry.bucket) for entry in live}
    size = sum(entry.file.file_size for entry in live)
    snapshots = () if latest is None else (latest,)
    return CompactionSummary(snapshots, len(buckets), len(files.names), len(live), files.file_size, size)


def _answer(done: CompactionSummary) -> pa.Table:
    counts = {
        "snapshot_id": None if done.snapshot is None else done.snapshot.id,
        "buckets": done.buckets,
        "files_before": done.files_before,
        "files_after": done.files_after,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
        "busy_buckets": done.busy,
        "lost_buckets": done.lost,
    }
    return counts_row(counts)


@procedure()
def compact_manifest(table: DynamicTable) -> pa.Table:
    """Writes the manifests again, in as few files as there can be; data files stay as they are."""
    done = compact_manifests(table)
    counts = {
        "snapshot_id": None if done.snapshot is None else done.snapshot.id,
        "manifests_before": done.manifests_before,
        "manifests_after": done.manifests_after,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
    }
    return counts_row(counts)


@procedure(bucket_num=number, partitions=partition_specs)
def rescale(
    table: DynamicTable,
    alter: Callable[[Sequence[SchemaChange]], object],
    bucket_num: int | None = None,
    partitions: Sequence[Mapping[str, str]] = (),
) -> None:
    """Writes the rows of all or some partitions again in another number of buckets, which becomes the table's."""
    if bucket_num is not None and bucket_num != table.schema.num_buckets:
        if bucket_num < 1:
            raise InvalidRequest(f"bucket_num = {bucket_num} of table {table.name}: give a number of at least 1")
        alter([SetOption(BUCKET.key, str(bucket_num))])
        table = table.with_newest_schema()
    for values in partitions or [{}]:
        rewrite_buckets(table, values)


@procedure(
    retain_max=number, retain_min=number, older_than=age, max_deletes=number, options=options_among(RETENTION_OPTIONS)
)
def expire_snapshots(
    table: DynamicTable,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than: timedelta | None = None,
    max_deletes: int | None = None,
) -> pa.Table:
    """Removes old snapshots, by the table's options where nothing else is given."""
    expired = retention.expire_snapshots(table, retain_max, retain_min, older_than, max_deletes)
    return pa.table({"deleted_snapshots_count": pa.array([len(expired)], pa.int64())})


@procedure(
    expiration_time=duration,
    expire_strategy=text,
    timestamp_formatter=text,
    timestamp_pattern=text,
    max_expires=number,
    options=options_among(RETENTION_OPTIONS),
)
def expire_partitions(
    table: DynamicTable,
    expiration_time: timedelta | None = None,
    expire_strategy: str | None = None,
    timestamp_formatter: str | None = None,
    timestamp_pattern: str | None = None,
    max_expires: int | None = None,
) -> pa.Table:
    """Drops partitions that are older than ``partition.expiration-time``."""
    options = {
        PARTITION_TIMESTAMP_FORMATTER.key: timestamp_formatter,
        PARTITION_TIMESTAMP_PATTERN.key: timestamp_pattern,
        PARTITION_EXPIRATION_MAX.key: max_expires,
    }
    table = table.with_hints({key: str(value) for key, value in options.items() if value is not None})
    expired = partition_expiry.expire_partitions(table, expiration_time, expire_strategy)
    texts = [", ".join(f"{key}={value}" for key, value in values.items()) for values in expired]
    return pa.table({"expired_partitions": pa.array(texts, pa.string())})


@procedure(older_than=age, dry_run=flag, parallelism=ignored, mode=ignored)
def remove_orphan_files(table: DynamicTable, older_than: timedelta | None = None, dry_run: bool = False) -> pa.Table:
    """Removes files that nothing names and that are older than a day; with ``dry_run`` it only lists them."""
    orphans = retention.remove_orphan_files(table, older_than, dry_run)
    if dry_run:
        return pa.table({"orphan_file": pa.array(orphans.files, pa.string())})
    counts = {"deleted_file_count": [len(orphans.files)], "deleted_file_total_len_in_bytes": [orphans.bytes]}
    return pa.table(counts, schema=pa.schema([(name, pa.int64()) for name in counts]))
