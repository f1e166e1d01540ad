"""The rows of a run of many writers: each key is a register, every written value is unique; and what changes add up to.

A table without a key has a register for each row, whose key is its value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

Row = tuple[str, int, int]
"""Row kind, id, v."""

COLUMNS = "id bigint, v bigint"
_SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("_row_kind", pa.string())])


def with_kinds(rows: Iterable[Row]) -> pa.RecordBatch:
    """Rows as a stream of changes."""
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[n], _SCHEMA.types[i]) for i, n in enumerate((1, 2, 0))], schema=_SCHEMA
    )


def batch_of(rows: Iterable[Row]) -> pa.RecordBatch:
    """Rows as a write takes them, without kinds when they are all new."""
    found = with_kinds(rows)
    return found.select(["id", "v"]) if set(found.column("_row_kind").to_pylist()) <= {"+I"} else found


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The changes of a batch of a tail."""
    return list(zip(*(batch.column(name).to_pylist() for name in ("_row_kind", "id", "v")), strict=True))


class Folded:
    """What changes add up to: the newest row of each key, or without a key how often each row is there."""

    def __init__(self, keyed: bool) -> None:
        self._keyed = keyed
        self._rows: dict[int, int] = {}
        self._counts: Counter[int] = Counter()

    def add(self, rows: Iterable[Row]) -> None:
        """Takes changes in their order."""
        for kind, key, value in rows:
            if not self._keyed:
                self._counts[key] += 1 if kind[0] == "+" else -1
            elif kind[0] == "+":
                self._rows[key] = value
            elif kind == "-D":
                self._rows.pop(key, None)

    def table(self) -> dict[int, int]:
        """By key."""
        return self._rows if self._keyed else registers(self._counts)


def found(rows: pa.Table, keyed: bool) -> dict[int, int]:
    """What a batch read has found, by key; a key that it has twice is one with a value that nobody wrote."""
    keys = rows.column("id").to_pylist()
    if not keyed:
        return registers(Counter(keys))
    out = dict(zip(keys, rows.column("v").to_pylist(), strict=True))
    return out if len(out) == len(keys) else out | {key: -n for key, n in Counter(keys).items() if n > 1}


def registers(counts: Mapping[int, int]) -> dict[int, int]:
    """The registers of a table without a key: a row that is not there once has a value that nobody wrote."""
    return {row: row if n == 1 else -n for row, n in counts.items() if n}
