"""Partition pruning by a join with a small table: the driver reads that table's keys first.

Spark's own dynamic partition pruning only supports the partitions of its file sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl
import pyarrow as pa

from lakelog.filestore.read.plan import Split
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.join_pruning import values_text
from lakelog.sql.query.predicate_parser import filtered
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.union_scan import TailSplit

_FEW_BYTES: Final = 16 << 20
_FEW_ROWS: Final = 1 << 20
"""Maximum row count of a table that the driver reads faster than a job does."""
_FEW_VALUES: Final = 1_000
_MANY_FILES: Final = 16
"""Minimum number of files of a table for which reading another one first is worthwhile."""


@dataclass(frozen=True)
class SmallTable:
    """A table that the driver has read: the query then reads exactly these splits of it."""

    scan: Scan
    splits: Sequence[Split]

    def values(self, column: str) -> list[object] | None:
        """The non-NULL values of a column; None if they are too many, or not Python values."""
        values: pl.Series | None = None
        chosen = self.scan.select((column,))
        for split in self.splits:
            for batch in chosen.read(split):
                part = pl.Series(pa.chunked_array([batch.column(0)])).drop_nulls().unique()
                values = part if values is None else pl.concat([values, part]).unique()
                if len(values) > _FEW_VALUES:
                    return None
        try:
            return [] if values is None else values.to_list()
        except (ValueError, OverflowError):  # a day after the year 9999
            return None


@dataclass(frozen=True)
class PrunedSources:
    """The sources of a query, with join filters for those of many partitions; ``small`` tables by view."""

    sources: Sequence[Source]
    small: Mapping[str, SmallTable]


def prune(plan: QueryPlan, scans: Mapping[str, Scan]) -> PrunedSources:
    """Reads the small tables of a query's joins; ``scans`` are the reads of data files, by view.

    Called on the driver before the frames of a query are created. Reads the splits of small tables.
    """
    pruning = _Pruning(plan, scans)
    sources = tuple(pruning.with_filters(source) for source in plan.sources)
    return PrunedSources(sources, {view: table for view, table in pruning.small.items() if table is not None})


class _Pruning:
    def __init__(self, plan: QueryPlan, scans: Mapping[str, Scan]) -> None:
        self._plan, self._scans = plan, scans
        self.small: dict[str, SmallTable | None] = {}

    def with_filters(self, source: Source) -> Source:
        scan = self._scans.get(source.view)
        if not source.joined or scan is None or not _is_large(filtered(scan, source.filter)):
            return source
        kinds = scan.row_schema
        texts = [text for text in (self._filter(kinds, *key) for key in source.joined) if text is not None]
        whole = [*([] if source.filter is None else [source.filter]), *texts]
        return replace(source, filter=" AND ".join(whole)) if texts else source

    def _filter(self, kinds: TableSchema, column: str, view: str, other_column: str) -> str | None:
        if view not in self._scans:
            return None
        if view not in self.small:
            self.small[view] = self._plan_small(view)
        small = self.small[view]
        values = None if small is None else small.values(other_column)
        return None if values is None else values_text(kinds.select([column])[0], values)

    def _plan_small(self, view: str) -> SmallTable | None:
        source = next(source for source in self._plan.sources if source.view == view)
        scan = filtered(self._scans[view], source.filter)
        splits = scan.plan()
        if any(isinstance(split, TailSplit) for split in splits):
            return None
        size = sum(split.file_size + sum(map(len, split.inline_runs)) for split in splits)
        if size > _FEW_BYTES or sum(split.row_count for split in splits) > _FEW_ROWS:
            return None
        return SmallTable(scan, splits)


def _is_large(scan: Scan) -> bool:
    return sum(len(split.files) for split in scan.plan()) >= _MANY_FILES
