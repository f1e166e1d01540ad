"""Detection of update pairs (-U, +U) in a change stream."""

from __future__ import annotations

import numpy as np
import polars as pl

from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER, UPDATE_BEFORE


def _may_be_second(kinds: np.ndarray) -> np.ndarray:
    """Marks, from the second row on, each +U or +I directly after a -U (of any key)."""
    is_second: np.ndarray = ((kinds[1:] == UPDATE_AFTER) | (kinds[1:] == INSERT)) & (kinds[:-1] == UPDATE_BEFORE)
    return is_second


def may_hold_pairs(kinds: np.ndarray) -> bool:
    """Returns whether some +U or +I directly follows a -U (of any key); ``kinds`` are row kinds (int8)."""
    return bool(_may_be_second(kinds).any())


def second_of_pair(kinds: np.ndarray, key_texts: pl.Series | None) -> np.ndarray:
    """Marks every +U or +I directly after the -U of its key; marks nothing without keys (None)."""
    second = np.zeros(len(kinds), dtype=bool)
    if key_texts is None or not may_hold_pairs(kinds):
        return second
    second[1:] = _may_be_second(kinds)
    second[1:] &= (key_texts[1:] == key_texts[:-1]).to_numpy()
    return second
