"""Selects the files to rewrite when the rows of a table without a primary key are clustered by columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.errors import InvalidRequest, InvalidSchema
from lakelog.filestore.write.data_file_writer import target_file_size
from lakelog.options.log import EMIT_MODE
from lakelog.options.overwrite import OVERWRITE_SAME_ROWS
from lakelog.options.table import WRITE_SHUFFLE
from lakelog.paimon.types.types import is_ordered, type_keyword
from lakelog.table.commit.seal import seal_decided
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan

ORDER: Final = "order"
ZORDER: Final = "zorder"
STRATEGIES: Final = (ORDER, ZORDER)
_MOST_BITS: Final = 10
_ALL_BITS: Final = 62


@dataclass(frozen=True)
class ClusteringOrder:
    """The layout of rows: in the ``order`` of columns, or near in all of them (``zorder``)."""

    strategy: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class ClusteringJob:
    """The data files to replace: ``names``, their bytes and rows; ``table`` writes the files alone."""

    table: DynamicTable
    layout: ClusteringOrder
    names: tuple[str, ...]
    file_size: int
    row_count: int

    @property
    def new_files(self) -> int:
        """The approximate number of new files."""
        return max(1, -(-self.file_size // target_file_size(self.table.schema)))


def files_to_sort(table: DynamicTable, layout: ClusteringOrder, partitions: Collection[bytes] | None) -> ClusteringJob:
    """The files of the newest snapshot, of some partitions (serialised rows) or all; seals decided epochs first.

    Called before a sorting compaction. The rows stay the same, so readers of a log need no changes. Raises
    InvalidRequest for a table with a primary key or an unknown strategy, InvalidSchema for columns by which files
    cannot be sorted.
    """
    layout = _checked(table, layout)
    seal_decided(table)
    splits = [s for s in Scan(table).plan() if partitions is None or s.partition in partitions]
    files = [file for split in splits for file in split.files]
    return ClusteringJob(
        table.with_hints({EMIT_MODE.key: "file", WRITE_SHUFFLE.key: "none", OVERWRITE_SAME_ROWS.key: "true"}),
        layout,
        tuple(file.file_name for file in files),
        sum(file.file_size for file in files),
        sum(file.row_count for file in files),
    )


def _checked(table: DynamicTable, layout: ClusteringOrder) -> ClusteringOrder:
    """The layout with the table's column names."""
    schema = table.schema
    if layout.strategy not in STRATEGIES:
        raise InvalidRequest(f"unknown order_strategy '{layout.strategy}': use one of {', '.join(STRATEGIES)}")
    if schema.is_keyed:
        raise InvalidRequest(
            f"rows of table {table.name} are sorted by its primary key: only a table without one can be clustered by "
            "columns. 'file-index.bloom-filter.columns' speeds up filters on other columns"
        )
    if not layout.columns:
        raise InvalidSchema("name the columns to sort by: order_by => 'a,b'")
    fields = {field.name.lower(): field for field in schema.fields}
    names: list[str] = []
    for column in layout.columns:
        field = fields.get(column.lower())
        if field is None:
            raise InvalidSchema(f"table {table.name} has no column '{column}'; it has: {', '.join(schema.field_names)}")
        if field.name in names:
            raise InvalidSchema(f"column '{column}' is named twice")
        if field.name in schema.partition_keys:
            raise InvalidSchema(f"column '{column}' of table {table.name} is a partition column: leave it out")
        if not is_ordered(field.type):
            what = f"its type {type_keyword(field.type)} has no order"
            raise InvalidSchema(f"rows cannot be sorted by column '{column}' of table {table.name}: {what}")
        names.append(field.name)
    return ClusteringOrder(layout.strategy, tuple(names))


@dataclass(frozen=True)
class ZOrder:
    """A curve through several columns. Picklable.

    A column is represented by its rank among ``bounds``, one ascending Arrow array per column, so that skewed and long
    values spread evenly. NULL is the lowest.
    """

    bounds: tuple[pa.Array, ...]

    @classmethod
    def of_sample(cls, columns: Sequence[pa.ChunkedArray]) -> ZOrder:
        """The curve through columns of a sample of the rows: each column in as many equal parts as its bits allow."""
        bits = min(_MOST_BITS, _ALL_BITS // max(1, len(columns)))
        return cls(tuple(_bounds(column, 1 << bits) for column in columns))

    def positions(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The position of each row on the curve, int64 from 0; ``columns`` have the order of the bounds."""
        width = max((len(bounds) for bounds in self.bounds), default=0).bit_length()
        ranks = [_ranks(column, bounds, width) for column, bounds in zip(columns, self.bounds, strict=True)]
        out = np.zeros(len(columns[0]), np.int64)
        for bit in range(width):
            for at, rank in enumerate(ranks):
                out |= ((rank >> bit) & 1) << (bit * len(ranks) + len(ranks) - 1 - at)
        return pa.array(out)


def _bounds(column: pa.ChunkedArray, parts: int) -> pa.Array:
    """At most ``parts`` - 1 values that split the sample into parts of similar size."""
    values = pl.Series(column).drop_nulls().sort()
    if not len(values):
        return pa.array([], column.type)
    cuts = np.unique(np.linspace(0, len(values) - 1, parts, dtype=np.int64)[1:])
    return values.gather(cuts).unique(maintain_order=True).to_arrow().cast(column.type)


def _ranks(column: pa.Array, bounds: pa.Array, width: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ranks of ``width`` bits, so that a column of few values has the same weight as one of many."""
    if not len(bounds):
        return np.zeros(len(column), np.int64)
    series = pl.Series(bounds)
    ranks = series.search_sorted(pl.Series(column).cast(series.dtype), side="right").to_numpy().astype(np.int64)
    return (ranks << width) // (len(bounds) + 1)
