"""Freshness and hit rate of a lookup join: a small file for each of its workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.paimon.types.json_record import JsonRecord
from lakelog.table.model.dynamic_table import DynamicTable

AGE_LIMITS_MS: Final = (
    1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1500, 2000, 5000, 10_000,
)  # fmt: skip
"""Upper bounds of the histogram of answer ages; an age counts in the first sufficient one, or after the last."""
_KEPT_MS: Final = 24 * 3_600_000


@dataclass
class LookupStats(JsonRecord):
    """Counts of one worker since it started. ``ages`` counts probes by age (``AGE_LIMITS_MS``, and one more).

    The age of an answer is the time since the last refresh of the index. ``found`` are probes with a match, ``late``
    those with a match on retry, ``retried`` the retries.
    """

    probes: int = 0
    found: int = 0
    late: int = 0
    retried: int = 0
    oldest_ms: float = 0.0
    begun: int = 0
    index_rows: int = 0
    index_bytes: int = 0
    memory_bytes: int = 0
    block_hits: int = 0
    block_loads: int = 0
    ages: list[int] = field(default_factory=lambda: [0] * (len(AGE_LIMITS_MS) + 1))

    def answered(self, probes: int, age_ms: float) -> None:
        """Counts the answers to ``probes`` probes."""
        self.probes += probes
        self.ages[int(np.searchsorted(AGE_LIMITS_MS, age_ms))] += probes
        self.oldest_ms = max(self.oldest_ms, age_ms)


def check_name(name: str) -> None:
    """Raises InvalidRequest for a statistics name that is not a valid directory name."""
    if not name.strip() or name.startswith(".") or set("/\\") & set(name):
        raise InvalidRequest(
            f"'{name}' cannot be the name of a lookup join: it must not be blank or contain '/', '\\' or '.'"
        )


def save_stats(table: DynamicTable, name: str, worker: str, stats: LookupStats) -> None:
    """Replaces the stored statistics of a worker (``<table>/lakelog/lookups/<name>/<worker>``)."""
    table.io.write(f"{_root(table)}/{name}/{worker}", stats.to_json())


def delete_old_stats(table: DynamicTable) -> None:
    """Deletes statistics that have not changed for a day. Called by orphan cleaning."""
    joins = table.io.list(_root(table))
    limit = storage_now_ms(table.io, table.path) - _KEPT_MS if joins else 0
    for join in joins:
        files = table.io.list(join.path)
        if all(status.mtime_ms < limit for status in files):
            table.io.delete_dir(join.path)


def lookup_stats(table: DynamicTable, name: str | None = None) -> pa.Table:
    """One row for each lookup join with a table, or for one join by name, with the combined statistics of its workers.

    ``age_p50_ms`` and ``age_p99_ms`` are upper bounds; NULL above the last limit.
    """
    rows = []
    for join in sorted(table.io.list(_root(table)), key=lambda status: status.name):
        if name in (None, join.name):
            rows.append(_row(join.name, list(_stored_stats(table, join.path))))
    return pa.Table.from_pylist(rows, _SCHEMA)


def _stored_stats(table: DynamicTable, path: str) -> Iterator[LookupStats]:
    for status in table.io.list(path):
        try:
            yield LookupStats.from_json(table.io.read(status.path))
        except LakelogError:  # deleted in the meantime, or of another version
            continue


_SUMMED: Final = ("probes", "found", "retried", "late", "begun", "index_rows", "index_bytes", "memory_bytes")
_BLOCKS: Final = ("block_hits", "block_loads")
_SCHEMA: Final = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("workers", pa.int64()),
        *(pa.field(name, pa.int64()) for name in (*_SUMMED, *_BLOCKS)),
        *(pa.field(name, pa.float64()) for name in ("age_p50_ms", "age_p99_ms", "age_max_ms")),
    ]
)


def _row(name: str, workers: Sequence[LookupStats]) -> dict[str, object]:
    sums = {key: sum(getattr(worker, key) for worker in workers) for key in (*_SUMMED, *_BLOCKS)}
    ages = np.array([worker.ages for worker in workers] or [LookupStats().ages]).sum(axis=0)
    return {
        "name": name,
        "workers": len(workers),
        **sums,
        "age_p50_ms": _quantile(ages, 0.5),
        "age_p99_ms": _quantile(ages, 0.99),
        "age_max_ms": max((worker.oldest_ms for worker in workers), default=None),
    }


def _quantile(counts: np.ndarray, part: float) -> float | None:
    if not counts.sum():
        return None
    at = int(np.searchsorted(np.cumsum(counts), part * counts.sum()))
    return float(AGE_LIMITS_MS[at]) if at < len(AGE_LIMITS_MS) else None


def _root(table: DynamicTable) -> str:
    return f"{table.path}/lakelog/lookups"
