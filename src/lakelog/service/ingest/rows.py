"""The changes of one table since its last commit, as Arrow batches; fills large values that a message lacks.

An update lacks a large value (TOAST) that it has not changed, unless the table has REPLICA IDENTITY FULL. The value is
then that of the row with this key: in the open epoch, which keeps its batches, or in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.service.ingest.column_types import from_text
from lakelog.service.ingest.pgoutput import UNCHANGED, Unchanged, Value

Key = tuple[Any, ...]
Finder = Callable[[Sequence[Key]], pa.Table]
"""Keys → the rows of the table that have one of them."""
_MOST_ROWS: Final = 20_000
_MOST_BYTES: Final = 16 << 20
_MOST_KEPT: Final = 128 << 20
"""Bytes of an open epoch that are kept for updates without large values."""
_MOST_KEPT_ROWS: Final = 1_000_000
"""Number of these rows, whose keys are in memory once an update lacks a value."""
_FIRST_SIZE: Final = 64 << 10
"""Assumed bytes of a value that an update lacks, before the first one is found."""


class MissingValue(Exception):
    """A message lacks a large value, and no row with its key is found."""


class RowBuffer:
    """Changes by columns. ``keeps`` is True if updates may lack values; ``keys`` are the places of the key columns.

    A value that an update lacks counts as bytes, like the others: with the mean size of those that were found. So
    filled rows take not much more memory than whole ones.
    """

    def __init__(self, columns: Sequence[tuple[str, pa.DataType]], keys: Sequence[int], keeps: bool) -> None:
        self._columns, self._keys = columns, keys
        self._keeps = keeps and any(_is_long(kind) for _, kind in columns)
        self._kinds: list[str] = []
        self._rows: list[Sequence[Value]] = []
        self._former: dict[int, Sequence[Value]] = {}
        self._bytes, self._mean_size = 0, _FIRST_SIZE
        self.forget()

    def add(self, kind: str, values: Sequence[Value], before: Sequence[Value] | None = None) -> None:
        """Adds a row; ``before`` has its former key, if that has changed."""
        if before is not None:
            self._former[len(self._rows)] = before
        self._kinds.append(kind)
        self._rows.append(values)
        self._bytes += 64 + sum(
            self._mean_size if isinstance(value, Unchanged) else len(value) for value in values if value is not None
        )

    @property
    def is_full(self) -> bool:
        """True if the rows should be written now."""
        return len(self._rows) >= _MOST_ROWS or self._bytes >= _MOST_BYTES

    @property
    def is_heavy(self) -> bool:
        """True if the epoch should end, because it keeps many bytes or rows."""
        return self._kept_bytes >= _MOST_KEPT or self._kept_rows >= _MOST_KEPT_ROWS

    def forget(self) -> None:
        """Forgets the kept rows, because they are committed."""
        self._kept: list[pa.RecordBatch] = []
        self._kept_bytes = self._kept_rows = self._indexed = 0
        self._newest: dict[Key, tuple[int, int]] = {}  # key → kept batch and row, of the first _indexed batches

    def take(self, find: Finder) -> pa.RecordBatch | None:
        """The rows, with ``_row_kind``; None without any. Raises InvalidSchema, MissingValue."""
        if not self._rows:
            return None
        rows, kinds, former = self._rows, self._kinds, self._former
        self._rows, self._kinds, self._former, self._bytes = [], [], {}, 0
        arrays, lacking = [], dict[int, list[int]]()
        for place, (texts, (name, kind)) in enumerate(zip(zip(*rows, strict=True), self._columns, strict=True)):
            missing = [n for n, text in enumerate(texts) if text is UNCHANGED]
            if missing:
                lacking[place] = missing
                texts = tuple(None if isinstance(text, Unchanged) else text for text in texts)
            arrays.append(from_text(pa.array(texts, pa.binary()).cast(pa.string()), kind, name))
        names = [name for name, _ in self._columns]
        if lacking:
            arrays = self._filled(arrays, lacking, kinds, former, find)
        batch = pa.RecordBatch.from_arrays([*arrays, pa.array(kinds)], [*names, ROW_KIND_COLUMN])
        if self._keeps:
            self._kept.append(batch)
            self._kept_bytes += batch.nbytes
            self._kept_rows += batch.num_rows
        return batch

    def _filled(
        self,
        arrays: list[pa.Array],
        lacking: dict[int, list[int]],
        kinds: list[str],
        former: dict[int, Sequence[Value]],
        find: Finder,
    ) -> list[pa.Array]:
        """The columns with the values that messages lack, from the newest earlier row of the key."""
        if not self._keeps:
            raise MissingValue
        row_keys, before_keys, newest = self._key_values(arrays), self._before_keys(former), self._index()
        needed = {n for places in lacking.values() for n in places}
        here = dict[Key, int]()  # key → its newest row of these
        copies, kept, absent = dict[int, int](), dict[int, tuple[int, int]](), dict[int, Key]()
        for row, key in enumerate(row_keys):
            if row in needed:
                searched = before_keys.get(row, key)
                if searched in here:
                    copies[row] = here[searched]
                elif searched in newest:
                    kept[row] = newest[searched]
                else:
                    absent[row] = searched
            if kinds[row] != "-D":  # it may have the key only
                here[key] = row
        sources = self._kept_sources(kept)
        if absent:
            sources.append(self._stored_source(absent, find))
        out, size, count = list(arrays), 0, 0
        for place, rows in lacking.items():
            pieces, indices, at = [arrays[place]], list(range(len(row_keys))), len(row_keys)
            missing = set(rows)
            for values, places in sources:
                some = [(row, index) for row, index in places.items() if row in missing]
                piece = values[place].take(pa.array([index for _, index in some], pa.int64()))
                pieces.append(piece.cast(arrays[place].type))
                indices_of = range(at, at + len(some))
                for (row, _), index in zip(some, indices_of, strict=True):
                    indices[row] = index
                at += len(some)
                size, count = size + piece.nbytes, count + len(some)
            for row in rows:
                if row in copies:
                    indices[row] = indices[copies[row]]  # an earlier row, which has its value by now
            out[place] = pa.concat_arrays(pieces).take(pa.array(indices))
        if count:
            self._mean_size = size // count
        return out

    def _index(self) -> dict[Key, tuple[int, int]]:
        """The newest kept row of each key. Each batch is added once."""
        for n in range(self._indexed, len(self._kept)):
            kinds = self._kept[n].column(ROW_KIND_COLUMN).to_pylist()
            for row, key in enumerate(self._key_values(self._kept[n].columns[: len(self._columns)])):
                if kinds[row] != "-D":  # it may have the key only
                    self._newest[key] = (n, row)
        self._indexed = len(self._kept)
        return self._newest

    def _kept_sources(self, kept: dict[int, tuple[int, int]]) -> list[tuple[Sequence[pa.Array], dict[int, int]]]:
        """The columns of kept batches, each with row → its row there."""
        by_batch: dict[int, dict[int, int]] = {}
        for row, (batch, source) in kept.items():
            by_batch.setdefault(batch, {})[row] = source
        return [(self._kept[batch].columns, places) for batch, places in by_batch.items()]

    def _stored_source(self, absent: dict[int, Key], find: Finder) -> tuple[Sequence[pa.Array], dict[int, int]]:
        """The columns of rows of the table, with row → its row there. Raises MissingValue."""
        stored = find(list(dict.fromkeys(absent.values()))).select([name for name, _ in self._columns])
        columns = [column.combine_chunks() for column in stored.columns]
        row_of = {key: n for n, key in enumerate(self._key_values(columns))}
        if any(key not in row_of for key in absent.values()):
            raise MissingValue
        return columns, {row: row_of[key] for row, key in absent.items()}

    def _key_values(self, arrays: Sequence[pa.Array]) -> list[Key]:
        return list(zip(*(arrays[place].to_pylist() for place in self._keys), strict=True))

    def _before_keys(self, former: dict[int, Sequence[Value]]) -> dict[int, Key]:
        columns = []
        for place in self._keys:
            name, kind = self._columns[place]
            texts = pa.array([row[place] for row in former.values()], pa.binary()).cast(pa.string())
            columns.append(from_text(texts, kind, name).to_pylist())
        return dict(zip(former, zip(*columns, strict=True), strict=True)) if former else {}


def _is_long(kind: pa.DataType) -> bool:
    """True for a type whose values PostgreSQL may store apart from the row (TOAST)."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_list(kind))
