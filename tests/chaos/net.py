"""What rows of a changelog add up to, by key or one by one; and how two such tables differ."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

from chaos.rows import COLUMNS, SCHEMA

_MANY = 200_000
"""Rows that wait before they are added up."""

_COUNT = "n"


class Net:
    """``append``: each row counts for itself, and a -D takes one away. Else the newest row of an ``id`` counts."""

    def __init__(self, kind: str) -> None:
        self.rows = 0
        self._adds = kind == "append"
        self._waiting = [counted(SCHEMA.empty_table())]
        self._held = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes in a batch with a column ``_row_kind``."""
        frame: Any = pl.from_arrow(batch)
        sign = pl.col("_row_kind").str.starts_with("+").cast(pl.Int64) * 2 - 1
        self._waiting.append(frame.select(*COLUMNS, sign.alias(_COUNT)))
        self.rows += batch.num_rows
        self._held += batch.num_rows
        if self._held > _MANY:
            self._fold()

    def table(self) -> pl.DataFrame:
        """The rows, with how often each is there in ``n``: -1 is a row that was taken back without having been."""
        self._fold()
        return self._waiting[0]

    def _fold(self) -> None:
        frame = pl.concat(self._waiting)
        if self._adds:
            frame = frame.group_by(COLUMNS).agg(pl.col(_COUNT).sum()).filter(pl.col(_COUNT) != 0)
        else:
            newest = frame.group_by("id", maintain_order=True).last().filter(pl.col(_COUNT) > 0)
            frame = newest.select(*COLUMNS, _COUNT)
        self._waiting, self._held = [frame], 0


def counted(rows: pa.Table | pl.DataFrame) -> pl.DataFrame:
    """Rows with the columns of the input, each once in ``n``."""
    frame: Any = rows if isinstance(rows, pl.DataFrame) else pl.from_arrow(rows)
    return frame.select(*COLUMNS, pl.lit(1, pl.Int64).alias(_COUNT))  # type: ignore[no-any-return]


def difference(wanted: pl.DataFrame, found: pl.DataFrame) -> tuple[int, int]:
    """Of two counted tables: how many rows the second one lacks, and how many it has that it should not have."""
    both = pl.concat([wanted, found.with_columns(-pl.col(_COUNT))]).group_by(COLUMNS).agg(pl.col(_COUNT).sum())
    left = both.get_column(_COUNT)
    return int(left.filter(left > 0).sum()), -int(left.filter(left < 0).sum())
