"""The answers of DDL, SHOW and DESCRIBE as small Arrow tables, with Spark's column names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import pyarrow as pa


def empty_result() -> pa.Table:
    """The answer of a statement that has nothing to say: no columns, no rows."""
    return pa.table({})


def text_rows(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> pa.Table:
    """A table of text columns."""
    listed = [tuple(row) for row in rows]
    arrays = [pa.array([row[i] for row in listed], pa.string()) for i in range(len(columns))]
    return pa.Table.from_arrays(arrays, names=list(columns))


def counts_row(counts: Mapping[str, int | None]) -> pa.Table:
    """One row of whole numbers."""
    return pa.table({name: pa.array([count], pa.int64()) for name, count in counts.items()})


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """The names, sorted, that match a pattern of SHOW … LIKE: ``*`` is anything, ``|`` is or, case does not count."""
    if pattern is None:
        return sorted(names)
    choices = [p.strip().lower().replace("[", "[[]").replace("%", "*") for p in pattern.split("|")]
    return sorted(n for n in names if any(fnmatchcase(n.lower(), c) for c in choices))
