"""The steps of one column's accumulators, for each key from the oldest to the newest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.merge.base import Indices, Mask

SKIP: Final = 0
"""No operation."""
ADD: Final = 1
"""The value is added to the accumulator."""
ADD_REVERSED: Final = 2
"""The value is older than the accumulator: the accumulator is added to the value."""
RETRACT: Final = 3
"""The value is taken back."""
SET: Final = 4
"""The accumulator becomes the value, regardless of its old value."""

Ops = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Steps:
    """The steps of all keys, one key after another; every key has at least one.

    ``rows`` are the row numbers of the values in the column, ``ops`` their operations, ``starts`` the positions at
    which a key starts. Accumulators start with NULL.
    """

    rows: Indices
    ops: Ops
    starts: Indices

    @cached_property
    def ends(self) -> Indices:
        """The last step of each key."""
        return np.append(self.starts[1:], len(self.rows)) - 1

    @cached_property
    def sizes(self) -> Indices:
        """The number of steps of each key."""
        return np.diff(self.starts, append=len(self.rows))

    @cached_property
    def since_set(self) -> Mask:
        """A mask of the steps after which the key's accumulator is not set again (the last SET itself counts)."""
        last_set = self.last(self.ops == SET)
        return np.arange(len(self.rows)) >= np.repeat(last_set, self.sizes)

    def valid(self, column: pa.Array) -> Mask:
        """A mask of the steps with a non-NULL value."""
        if not column.null_count:
            return np.ones(len(self.rows), dtype=np.bool_)
        mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)[self.rows]
        return mask

    def with_ops(self, ops: Ops) -> Steps:
        """Other operations on the same values."""
        return replace(self, ops=ops)

    def last(self, mask: Mask) -> Indices:
        """The last step of each key at which the mask is true; -1: none."""
        positions = np.flatnonzero(mask)
        at = np.searchsorted(positions, self.ends, side="right") - 1
        out = np.where(at >= 0, positions[at], -1) if len(positions) else np.full(len(self.starts), -1)
        return np.where(out >= self.starts, out, -1)

    def first(self, mask: Mask) -> Indices:
        """The first step of each key at which the mask is true; -1: none."""
        positions = np.append(np.flatnonzero(mask), len(mask))
        out = positions[np.searchsorted(positions, self.starts)]
        return np.where(out <= self.ends, out, -1)

    def keys_of(self, mask: Mask) -> Mask:
        """The keys that have a step at which the mask is true."""
        return self.last(mask) >= 0

    def take(self, column: pa.Array, at: Indices) -> pa.Array:
        """The values at steps; NULL for -1."""
        rows = self.rows[np.maximum(at, 0)]
        return column.take(pa.array(rows, mask=at < 0))

    def picked(self, mask: Mask) -> tuple[Indices, Indices, Mask]:
        """The steps where the mask is true, the starts of keys among them, and a mask of keys with any.

        Both index arrays have no entry for keys without such a step.
        """
        counts = np.add.reduceat(mask.astype(np.int64), self.starts)
        has_any = counts > 0
        counts = counts[has_any]
        return np.flatnonzero(mask), np.cumsum(counts) - counts, has_any


def in_turn(starts: Indices, total: int) -> Iterator[tuple[Indices, Indices]]:
    """Iterates groups in parallel: first the first elements of all groups, then the second ones, …

    Yields (the groups with such an element, its position). ``starts`` are the starts of groups among ``total``
    elements.
    """
    sizes = np.diff(starts, append=total)
    by_size = np.argsort(-sizes, kind="stable")
    left = np.sort(sizes)
    for turn in range(int(left[-1]) if len(left) else 0):
        groups = by_size[: len(left) - int(np.searchsorted(left, turn, side="right"))]
        yield groups, starts[groups] + turn
