"""CALL sys.compact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakelog.sql.filter_text import parse_filter
from lakelog.sql.procedure import Parameter, Procedure, Value, flag, text
from lakelog.table.compaction_job import chosen_partitions, compact_table
from lakelog.table.compaction_task import Executor
from lakelog.table.dynamic_table import DynamicTable


def partition_specs(given: Value) -> list[dict[str, str]]:
    """Partitions as text, like ``day=2024-01-31,hour=1;day=2024-02-01``. Raises ValueError."""
    specs = [dict(_pair(part) for part in spec.split(",")) for spec in text(given).split(";") if spec.strip()]
    if not specs:
        raise ValueError("write partitions like 'day=2024-01-31,hour=1;day=2024-02-01'")
    return specs


def strategy(given: Value) -> bool:
    """``full`` or ``minor``, the words of Apache Paimon: whether the compaction is a full one."""
    name = text(given).lower()
    if name not in ("full", "minor"):
        raise ValueError("write 'full' or 'minor'")
    return name == "full"


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals or not name.strip():
        raise ValueError("write partitions like 'day=2024-01-31,hour=1;day=2024-02-01'")
    return name.strip(), value.strip()


def _run(
    table: DynamicTable,
    executor: Executor | None,
    full: bool = True,
    partitions: Sequence[Mapping[str, str]] = (),
    where: str | None = None,
    compact_strategy: bool | None = None,
) -> pa.Table:
    condition = None if where is None else parse_filter(where, table.schema)
    chosen = chosen_partitions(table, partitions, condition)
    done = compact_table(table, full if compact_strategy is None else compact_strategy, chosen, executor)
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
    return pa.table({name: pa.array([count], pa.int64()) for name, count in counts.items()})


COMPACT = Procedure(
    "compact",
    (
        Parameter("full", flag),
        Parameter("partitions", partition_specs),
        Parameter("where", text),
        Parameter("compact_strategy", strategy),
    ),
    _run,
    uses_executor=True,
)
"""Merges the files of every bucket, or of some partitions; with ``full => false`` only where there are too many."""
