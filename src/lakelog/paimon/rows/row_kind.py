"""Row kinds of a changelog, with the numbers that Paimon writes into ``_VALUE_KIND``."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema

INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3

NAMES: Final = ("+I", "-U", "+U", "-D")

ROW_KIND_COLUMN: Final = "_row_kind"
"""The column that carries the row kind as text in Arrow batches and DataFrames of changes."""

KIND_FIELD: Final = pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False)
"""The Arrow field of the row kind column."""


def with_kind(batch: pa.RecordBatch, kind: str) -> pa.RecordBatch:
    """The rows with the row kind column; all have the same kind."""
    return batch.append_column(KIND_FIELD, pa.array([kind] * batch.num_rows, pa.string()))


def kinds_from_text(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array | pa.ChunkedArray:
    """Row kinds (int8) of a column that holds their names: ``_row_kind``, or that of option ``rowkind.field``.

    Raises InvalidSchema naming the column for NULL and other texts.
    """
    kinds = pc.index_in(column.cast(pa.string()), value_set=pa.array(NAMES))
    if kinds.null_count:
        row = pc.index(pc.is_null(kinds), pa.scalar(True)).as_py()
        raise InvalidSchema(f"'{name}' = {column[row].as_py()!r} in row {row}: use one of {', '.join(NAMES)}")
    return kinds.cast(pa.int8())
