"""Finds the keys of one sorted list of rows in another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakelog.merge.base import Indices
from lakelog.merge.keys import Part, concat_parts, key_starts, sort_rows


def find_keys(wanted: Sequence[Part], among: Sequence[Part]) -> Indices:
    """For each key of ``wanted`` the row of ``among`` that has it; -1: none has.

    Both are key columns in comparable form (``merge.keys.key_parts``) of the same types, sorted, each key once. Called
    for each piece of a compaction that looks up what it replaces.
    """
    first, other = wanted[0], among[0]
    if len(wanted) == 1 and isinstance(first, np.ndarray) and isinstance(other, np.ndarray):
        if not len(other):
            return np.full(len(first), -1)
        at = np.minimum(np.searchsorted(other, first), len(other) - 1)
        return np.where(other[at] == first, at, -1)
    rows = len(other)
    both = [concat_parts([there, here]) for there, here in zip(among, wanted, strict=True)]
    order = sort_rows(both)
    # equal keys keep their order, so the row before that of a wanted key is the one with its key
    again = np.flatnonzero(~key_starts(both, order))
    found = np.full(len(first), -1)
    found[order[again] - rows] = order[again - 1]
    return found
