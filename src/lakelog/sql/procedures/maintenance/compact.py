"""CALL sys.compact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pyarrow as pa

from lakelog.errors import CommitConflict, InvalidRequest
from lakelog.options.compatibility import INERT
from lakelog.options.table import TABLE_OPTIONS
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.runtime.ports import Engine
from lakelog.sql.runtime.procedure import (
    Parameter,
    Procedure,
    Value,
    duration,
    flag,
    options_among,
    partition_specs,
    text,
)
from lakelog.sql.runtime.statement import counts_row
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.table.maintenance.compaction_commit import CompactionSummary
from lakelog.table.maintenance.compaction_job import chosen_partitions, compact_table, idle_partitions
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.clustering import ClusteringOrder, files_to_sort

UNORDERED: Final = "none"
_PREFIXES: Final = ("compaction.", "num-sorted-run.", "target-file-size", "file.", "changelog-file.", "metadata.stats-")
_OPTIONS: Final = (
    *(option for option in TABLE_OPTIONS.options if option.key.startswith(_PREFIXES) and "write" in option.scope),
    *(option for option in INERT if option.key == "sink.parallelism"),
)
"""Options of a table that may be given for one call."""
_ATTEMPTS: Final = 5
"""Maximum attempts if other commits replace the same files."""


def strategy(given: Value) -> bool:
    """Parses Apache Paimon's ``full`` or ``minor``; True for a full compaction."""
    name = text(given).lower()
    if name not in ("full", "minor"):
        raise ValueError("write 'full' or 'minor'")
    return name == "full"


def columns(given: Value) -> tuple[str, ...]:
    """Names of columns, like ``a, `b c```."""
    cursor = TokenStream.over(text(given))
    found = cursor.names("a column")
    cursor.expect_end()
    return found


def _run(
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
    made = () if latest is None else (latest,)
    return CompactionSummary(made, len(buckets), len(files.names), len(live), files.file_size, size)


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


COMPACT = Procedure(
    "compact",
    (
        Parameter("full", flag),
        Parameter("partitions", partition_specs),
        Parameter("where", text),
        Parameter("compact_strategy", strategy),
        Parameter("order_strategy", text),
        Parameter("order_by", columns),
        Parameter("partition_idle_time", duration),
        Parameter("options", options_among(_OPTIONS)),
    ),
    _run,
    uses_engine=True,
)
"""Merges the files of every bucket, or of some partitions; with ``full => false`` only where there are too many.

With an ``order_strategy`` it writes all files of a table without a primary key again, its rows laid out by columns.
"""
