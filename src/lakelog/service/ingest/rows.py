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


class MissingValue(Exception):
    """A message lacks a large value, and no row with its key is found."""


class RowBuffer:
    """Changes by columns. ``keeps`` is True if updates may lack values; ``keys`` are the places of the key columns."""

    def __init__(self, columns: Sequence[tuple[str, pa.DataType]], keys: Sequence[int], keeps: bool) -> None:
        self._columns, self._keys, self._keeps = columns, keys, keeps
        self._kinds: list[str] = []
        self._rows: list[Sequence[Value]] = []
        self._former: dict[int, Sequence[Value]] = {}
        self._bytes = self._kept_bytes = 0
        self._kept: list[pa.RecordBatch] = []

    def add(self, kind: str, values: Sequence[Value], before: Sequence[Value] | None = None) -> None:
        """Adds a row; ``before`` has its former key, if that has changed."""
        if before is not None:
            self._former[len(self._rows)] = before
        self._kinds.append(kind)
        self._rows.append(values)
        self._bytes += 64 + sum(len(value) for value in values if isinstance(value, bytes))

    @property
    def is_full(self) -> bool:
        """True if the rows should be written now."""
        return len(self._rows) >= _MOST_ROWS or self._bytes >= _MOST_BYTES

    @property
    def is_heavy(self) -> bool:
        """True if the epoch should end, because it keeps many bytes."""
        return self._kept_bytes >= _MOST_KEPT

    def forget(self) -> None:
        """Forgets the kept rows, because they are committed."""
        self._kept, self._kept_bytes = [], 0

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
        names = [name for name, _ in self._columns]
        own = self._key_values(arrays)
        before_keys = self._before_keys(former)
        newest: dict[Key, tuple[int, int]] = {}  # key → (kept batch, row); -1: this one
        for n, kept in enumerate(self._kept):
            kept_kinds = kept.column(ROW_KIND_COLUMN).to_pylist()
            for row, key in enumerate(self._key_values(kept.columns[: len(names)])):
                if kept_kinds[row] != "-D":  # it may have the key only
                    newest[key] = (n, row)
        wanted = {n for places in lacking.values() for n in places}
        sources: dict[int, tuple[int, int]] = {}
        absent: dict[int, Key] = {}
        for row, key in enumerate(own):
            if row in wanted:
                searched = before_keys.get(row, key)
                if searched in newest:
                    sources[row] = newest[searched]
                else:
                    absent[row] = searched
            if kinds[row] != "-D":
                newest[key] = (-1, row)
        found: dict[Key, int] = {}
        stored = None
        if absent:
            stored = find(list(dict.fromkeys(absent.values()))).select(names).combine_chunks()
            found = {key: n for n, key in enumerate(self._key_values([c.combine_chunks() for c in stored.columns]))}
        out = list(arrays)
        for place, rows in lacking.items():
            pieces, indices, at = [arrays[place]], list(range(len(own))), len(own)
            for row in rows:
                if row in absent:
                    if absent[row] not in found:
                        raise MissingValue
                    assert stored is not None
                    piece = stored.column(place).combine_chunks().slice(found[absent[row]], 1).cast(arrays[place].type)
                else:
                    batch, source = sources[row]
                    if batch < 0:
                        indices[row] = indices[source]
                        continue
                    piece = self._kept[batch].column(place).slice(source, 1)
                pieces.append(piece)
                indices[row] = at
                at += 1
            out[place] = pa.concat_arrays(pieces).take(pa.array(indices))
        return out

    def _key_values(self, arrays: Sequence[pa.Array]) -> list[Key]:
        return list(zip(*(arrays[place].to_pylist() for place in self._keys), strict=True))

    def _before_keys(self, former: dict[int, Sequence[Value]]) -> dict[int, Key]:
        columns = []
        for place in self._keys:
            name, kind = self._columns[place]
            texts = pa.array([row[place] for row in former.values()], pa.binary()).cast(pa.string())
            columns.append(from_text(texts, kind, name).to_pylist())
        return dict(zip(former, zip(*columns, strict=True), strict=True)) if former else {}
