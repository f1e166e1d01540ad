"""The input of a chaos run: every change is a function of its number, and so is the table that the changes lead to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

COLUMNS = ("id", "v", "name", "at")
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
DDL = "id bigint, v bigint, name string, at timestamp"

_STRIDE = 7_919
_NAMES = pa.array([f"name-{number:05d}" for number in range(100_000)])
_EPOCH_US = 1_700_000_000_000_000


@dataclass(frozen=True)
class Input:
    """``kind`` is ``changes`` (a change stream with ``_row_kind``: each round every key once is inserted, updated or
    deleted), ``upserts`` (rows of the same keys without a kind) or ``append`` (rows of no key).

    Of ``keys`` keys; ``seed`` makes other values.
    """

    kind: str
    keys: int
    seed: int

    def __post_init__(self) -> None:
        assert math.gcd(self.keys, _STRIDE) == 1

    @property
    def schema(self) -> pa.Schema:
        """The columns of the input."""
        return SCHEMA.append(pa.field("_row_kind", pa.string())) if self.kind == "changes" else SCHEMA

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """The rows of the changes first ≤ number < last: an update in a change stream has two."""
        numbers = np.arange(first, last, dtype=np.int64)
        if self.kind == "append":
            return pa.RecordBatch.from_arrays(self._columns(numbers, np.zeros_like(numbers)), schema=SCHEMA)
        rounds, keys = numbers // self.keys, self._keys(numbers)
        if self.kind == "upserts":
            return pa.RecordBatch.from_arrays(self._columns(keys, rounds), schema=SCHEMA)
        had, has = _is_alive(keys, rounds - 1), _is_alive(keys, rounds)
        images = np.sort(np.concatenate([np.flatnonzero(had) * 2, np.flatnonzero(has) * 2 + 1]))
        chosen, is_new = images // 2, images % 2 == 1
        kinds = np.where(is_new, np.where(had[chosen], "+U", "+I"), np.where(has[chosen], "-U", "-D"))
        columns = self._columns(keys[chosen], np.where(is_new, rounds[chosen], rounds[chosen] - 1))
        return pa.RecordBatch.from_arrays([*columns, pa.array(kinds)], schema=self.schema)

    def row_count(self, total: int) -> int:
        """How many rows the first ``total`` changes have."""
        step = 1_000_000
        return sum(self.rows(n, min(total, n + step)).num_rows for n in range(0, total, step))

    def table_after(self, total: int) -> pl.DataFrame:
        """The table that the first ``total`` changes lead to."""
        if self.kind == "append":
            numbers = np.arange(total, dtype=np.int64)
            return self._frame(numbers, np.zeros_like(numbers))
        rounds = np.full(self.keys, total // self.keys - 1, dtype=np.int64)
        rounds[self._keys(np.arange(total - total % self.keys, total, dtype=np.int64))] += 1
        keys = np.flatnonzero(rounds >= 0 if self.kind == "upserts" else _is_alive(np.arange(self.keys), rounds))
        return self._frame(keys, rounds[keys])

    def _frame(self, keys: Numbers, rounds: Numbers) -> pl.DataFrame:
        found: Any = pl.from_arrow(pa.Table.from_arrays(self._columns(keys, rounds), schema=SCHEMA))
        return found  # type: ignore[no-any-return]

    def _keys(self, numbers: Numbers) -> Numbers:
        """Each round has every key once, each in another order."""
        return (numbers % self.keys * _STRIDE + numbers // self.keys * 31) % self.keys

    def _columns(self, keys: Numbers, rounds: Numbers) -> list[pa.Array]:
        values = _mixed(keys.astype(np.uint64) * np.uint64(1_000_003) + rounds.astype(np.uint64), self.seed)
        return [
            pa.array(keys),
            pa.array(values),
            _NAMES.take(pa.array(values % len(_NAMES))),
            pa.array(_EPOCH_US + values % 10**15, SCHEMA.field("at").type),
        ]


def _is_alive(keys: Numbers, rounds: Numbers) -> npt.NDArray[np.bool_]:
    """Each key is there from round 0 on, but for every fifth round, in which it is deleted."""
    return (rounds >= 0) & ((rounds + keys % 4) % 5 != 4)


def _mixed(numbers: npt.NDArray[np.uint64], seed: int) -> Numbers:
    """Numbers that look random (splitmix64), 62 bits wide."""
    with np.errstate(over="ignore"):
        out = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed * 2 + 1)
        out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((out ^ (out >> np.uint64(31))) >> np.uint64(2)).astype(np.int64)
