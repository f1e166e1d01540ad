"""The keys whose rows a read returns, when they are too many for a condition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.merge.base import Indices
from lakelog.merge.keys import Part, concat_parts, key_parts, key_starts, sort_rows, taken


@dataclass(frozen=True)
class KeySet:
    """Keys of a table: the values of ``columns`` in comparable form, sorted, each key once."""

    columns: tuple[str, ...]
    parts: tuple[Part, ...]

    @staticmethod
    def of(rows: Iterable[pa.RecordBatch], columns: Sequence[str]) -> KeySet | None:
        """The keys of rows; None without rows. Raises InvalidSchema for a NULL key."""
        columns_of_batches = [key_parts(batch, columns) for batch in rows if batch.num_rows]
        if not columns_of_batches:
            return None
        parts = [concat_parts(part) for part in zip(*columns_of_batches, strict=True)]
        order = sort_rows(parts)
        order = order[key_starts(parts, order)]
        return KeySet(tuple(columns), tuple(taken(part, order) for part in parts))

    def __len__(self) -> int:
        return len(self.parts[0])

    def rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch, which is sorted by key, that have one of the keys."""
        if not batch.num_rows:
            return batch
        rows = self._found(key_parts(batch, self.columns))
        return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))

    def _found(self, among: Sequence[Part]) -> Indices:
        """The numbers of the rows with one of the keys, ascending."""
        keys, values = self.parts[0], among[0]
        if len(among) == 1 and isinstance(keys, np.ndarray) and isinstance(values, np.ndarray):
            start, stop = np.searchsorted(keys, values[0]), np.searchsorted(keys, values[-1], "right")
            first = np.searchsorted(values, keys[start:stop])
            times = np.searchsorted(values, keys[start:stop], "right") - first
            # the rows first[0], first[0] + 1, … of each key
            ends = np.cumsum(times)
            rows: Indices = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + times, times)
        else:
            rows = self._joined(among)
        return rows

    def _joined(self, among: Sequence[Part]) -> Indices:
        names = [str(at) for at in range(len(among))]
        keys = pl.DataFrame(dict(zip(names, self.parts, strict=True)))
        frame = pl.DataFrame(dict(zip(names, among, strict=True))).with_row_index("row")
        numbers = frame.join(keys, on=names, how="semi").get_column("row")
        rows: Indices = numbers.sort().to_numpy().astype(np.int64)
        return rows
