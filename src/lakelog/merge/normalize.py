"""Converts upserts to whole changes: the row before is the last upsert of its key. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakelog.merge.base import KIND_COLUMN, Indices, Mask
from lakelog.merge.changes import same_rows
from lakelog.merge.keys import Part, key_parts, key_starts, sort_rows, taken
from lakelog.paimon.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

Find = Callable[[Sequence[Part]], tuple[Indices, pa.Table]]
"""Sorted unique keys (``merge.keys``) → the positions of those with a row, and these rows in the same order."""


@dataclass(frozen=True)
class Normalized:
    """The result of upserts.

    ``changes`` are rows of kinds +I, -U and +U, -D, in the order of the upserts. ``state`` is the newest row of each
    changed key, sorted by key: kind +I, or -D for a deleted key.
    """

    changes: pa.Table
    state: pa.Table


def normalize(rows: pa.RecordBatch, keys: Sequence[str], compared: Sequence[str], find: Find) -> Normalized:
    """The changes that upserts make to the rows that ``find`` finds.

    ``rows`` have ``_VALUE_KIND``: the newest row of a key, or a delete (-U is one). An upsert with unchanged
    ``compared`` columns changes nothing, nor does the delete of a key without a row. Called for each chunk of a read of
    an upsert log. Raises InvalidSchema for a NULL key.
    """
    parts = key_parts(rows, keys)
    order = sort_rows(parts)
    is_first = key_starts(parts, order)
    firsts = np.flatnonzero(is_first)
    positions, old = find([taken(part, order[firsts]) for part in parts])
    known = np.full(len(firsts), -1)
    known[positions] = np.arange(old.num_rows)
    every = pa.concat_tables([old.select(rows.schema.names), pa.Table.from_batches([rows])]).combine_chunks()
    # for each row in key order: the positions in ``every`` of the row before it, and of itself; -1: none
    kinds = rows.column(KIND_COLUMN).to_numpy()[order]
    after = np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), order + old.num_rows, -1)
    before = np.where(is_first, known[np.cumsum(is_first) - 1], np.roll(after, 1))
    ends = np.append(firsts[1:], len(order)) - 1
    return Normalized(
        _changes(every, *_in_order_of_rows(order, before, after), compared),
        _state(every, known, after[ends], compared),
    )


def _in_order_of_rows(order: Indices, before: Indices, after: Indices) -> tuple[Indices, Indices]:
    out = np.empty((2, len(order)), dtype=np.int64)
    out[0, order], out[1, order] = before, after
    return out[0], out[1]


def _changes(every: pa.Table, before: Indices, after: Indices, compared: Sequence[str]) -> pa.Table:
    differs = _differs(every, before, after, compared)
    is_emitted = np.column_stack([(before >= 0) & differs, (after >= 0) & differs])
    kinds = np.column_stack(
        [np.where(after < 0, DELETE, UPDATE_BEFORE), np.where(before < 0, INSERT, UPDATE_AFTER)]
    ).astype(np.int8)
    return _rows(every, np.column_stack([before, after])[is_emitted], kinds[is_emitted])


def _state(every: pa.Table, before: Indices, after: Indices, compared: Sequence[str]) -> pa.Table:
    differs = _differs(every, before, after, compared)
    kinds = np.where(after < 0, DELETE, INSERT).astype(np.int8)
    return _rows(every, np.where(after < 0, before, after)[differs], kinds[differs])


def _differs(every: pa.Table, before: Indices, after: Indices, compared: Sequence[str]) -> Mask:
    """A mask of the rows that differ from the row before."""
    out: Mask = (before >= 0) | (after >= 0)
    both = (before >= 0) & (after >= 0)
    if both.any():
        columns = every.select(list(compared))
        old, new = columns.take(pa.array(before[both])), columns.take(pa.array(after[both]))
        out[both] = ~same_rows(old, new, compared)
    return out


def _rows(every: pa.Table, positions: Indices, kinds: np.ndarray) -> pa.Table:
    rows = every.take(pa.array(positions))
    at = rows.schema.get_field_index(KIND_COLUMN)
    return rows.set_column(at, rows.schema.field(at), pa.array(kinds, pa.int8()))
