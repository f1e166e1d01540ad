"""Looks rows up in an index: which of them find which rows. Columns in, positions out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.merge.base import Indices, Mask
from lakelog.merge.keys import Part, key_parts, key_starts, sort_rows
from lakelog.merge.normalize import taken
from lakelog.state.sorted_run import spread

Find = Callable[[Sequence[Part]], tuple[Indices, pa.Table]]
"""Sorted keys, each once → the place of the key of each row that was found, in order, and the rows."""


@dataclass(frozen=True)
class Matches:
    """Pairs of a probing row and a row that it found: ``left`` ascending, ``right`` rows of ``rows``."""

    left: Indices
    right: Indices
    rows: pa.Table

    def with_missing(self, wanted: Indices) -> Matches:
        """The pairs, and for each row of ``wanted`` that found nothing one with -1 on the right."""
        alone = np.setdiff1d(wanted, self.left)
        left = np.concatenate([self.left, alone])
        right = np.concatenate([self.right, np.full(len(alone), -1)])
        order = np.argsort(left, kind="stable")
        return Matches(left[order], right[order], self.rows)

    def right_rows(self) -> pa.Table:
        """The found row of each pair; NULL in all columns where there is none."""
        at = pa.array(self.right, mask=self.right < 0)
        columns = [self.rows.column(name).take(at) for name in self.rows.column_names]
        schema = pa.schema([field.with_nullable(True) for field in self.rows.schema])
        return pa.Table.from_arrays(columns, schema=schema)


def look_up(keys: pa.RecordBatch, schema: pa.Schema, wanted: Indices, find: Find, empty: pa.Table) -> Matches:
    """What some rows (numbers, ascending) of a batch of key columns find; a row with a NULL in its key finds nothing.

    The columns stand in the order of ``schema``, whose types the index has; a value that this type cannot hold finds
    nothing either. ``empty`` is what ``find`` gives for no key.
    """
    columns = [_exact(column.take(pa.array(wanted)), f.type) for column, f in zip(keys.columns, schema, strict=True)]
    valid = _has_no_null(columns, len(wanted))
    asking = wanted[valid]
    if not len(asking):
        return Matches(asking, asking, empty)
    kept = [column if valid.all() else column.filter(pa.array(valid)) for column in columns]
    parts = key_parts(pa.RecordBatch.from_arrays(kept, schema=_nullable(schema)), schema.names)
    order = sort_rows(parts)
    starts = key_starts(parts, order)
    places, rows = find([taken(part, order[starts]) for part in parts])
    keys_of = np.empty(len(order), dtype=np.int64)
    keys_of[order] = np.cumsum(starts) - 1
    first, end = (np.searchsorted(places, keys_of, side) for side in ("left", "right"))
    return Matches(np.repeat(asking, end - first), spread(first, end), rows)


def merged(parts: Sequence[Matches]) -> Matches:
    """The pairs of several look-ups of different rows."""
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0, *(part.rows.num_rows for part in parts)])
    left = np.concatenate([part.left for part in parts])
    right = np.concatenate([part.right + shift for part, shift in zip(parts, shifts, strict=False)])
    order = np.argsort(left, kind="stable")
    return Matches(left[order], right[order], pa.concat_tables([part.rows for part in parts]))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _exact(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values in another type; NULL where it has not just this value."""
    if column.type == kind:
        return column
    out = column.cast(kind, safe=False)
    if pa.types.is_temporal(kind) or pa.types.is_integer(kind):
        same = pc.equal(out.cast(column.type, safe=False), column)
        out = pc.if_else(same, out, pa.scalar(None, kind))
    return out


def missing(matches: Matches, wanted: Indices, keys: pa.RecordBatch) -> Indices:
    """The rows of ``wanted`` that found nothing and may find something later: those whose key has no NULL."""
    alone: Indices = np.setdiff1d(wanted, matches.left)
    return alone[_has_no_null(keys.columns, keys.num_rows)[alone]]


def _has_no_null(columns: Sequence[pa.Array], rows: int) -> Mask:
    valid: Mask = np.ones(rows, dtype=np.bool_)
    for column in columns:
        valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return valid
