"""Rows that clients write and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from simulated_table import World

from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.model.dynamic_table import DynamicTable

Row = tuple[str, int, int]
"""Row kind, id, v."""
EXTRAS = (2, 3)
"""Ids of the columns that ALTER renames or adds."""


def batch_of(world: World, handle: DynamicTable, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows for a write, with all columns of the handle."""
    kinds, ids, values = zip(*rows, strict=True) if rows else ((), (), ())
    columns: dict[str, Any] = {"id": ids, "v": values}
    names = extra_columns(handle.schema)
    for number in EXTRAS:
        extras = [extra_of(value, number) if number in names else None for value in values]
        if number in names:
            columns[names[number]] = extras
        for value, extra in zip(values, extras, strict=True):
            world.extras.setdefault((value, number), set()).add(extra)
    arrays = {name: pa.array(column, pa.int64()) for name, column in columns.items()}
    if not set(kinds) <= {"+I"}:
        arrays[ROW_KIND_COLUMN] = pa.array(kinds, pa.string())
    return pa.RecordBatch.from_pydict(arrays)


def extra_of(value: int, number: int) -> int:
    """The value of a column that ALTER renames or adds, by its id, for a row with this value."""
    return -value - 10**6 * (number - EXTRAS[0])


def extra_columns(schema: TableSchema) -> dict[int, str]:
    """Id → name of the columns that ALTER renames or adds."""
    return {field.id: field.name for field in schema.fields if field.id in EXTRAS}


def split(rows: list[Row], lanes: int) -> list[list[Row]]:
    """The rows of each task; all changes of a key are in one task."""
    return [[row for row in rows if row[1] % lanes == lane] for lane in range(lanes)]


def rows_by_key(world: World, found: pa.Table) -> dict[int, int]:
    """The rows of a read by key, without one by value. Raises AssertionError for a duplicate row."""
    column = "id" if world.case.keyed else "v"
    rows = list(zip(found.column(column).to_pylist(), found.column("v").to_pylist(), strict=True))
    assert len(dict(rows)) == len(rows), f"a read finds a row twice: {sorted(rows)}"
    return dict(rows)
