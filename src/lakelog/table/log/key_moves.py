"""Updates of foreign producers that change the primary key of the table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.merge.changes import same_rows
from lakelog.paimon.rows.row_kind import DELETE, NAMES, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.table.model.dynamic_table import DynamicTable


def first_of_updates(rows: pa.Table, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Two masks of the -U rows that a +U follows directly: one with the same key, and one with another key.

    ``rows`` have ``_row_kind``, and are in the order of the log.
    """
    kinds = rows.column(ROW_KIND_COLUMN).combine_chunks()
    before = pc.equal(kinds, NAMES[UPDATE_BEFORE]).to_numpy(zero_copy_only=False)
    after = pc.equal(kinds, NAMES[UPDATE_AFTER]).to_numpy(zero_copy_only=False)
    pairs = np.flatnonzero(before[:-1] & after[1:])
    same = same_rows(rows.take(pa.array(pairs)), rows.take(pa.array(pairs + 1)), keys)
    stays, moves = np.zeros((2, len(before)), dtype=np.bool_)
    stays[pairs[same]] = moves[pairs[~same]] = True
    return stays, moves


def with_moved_keys(rows: pa.Table, table: DynamicTable) -> pa.Table:
    """Decoded rows in which an update to another primary key deletes the row of the old one.

    A record of one change brings both images, so its -U belongs to the +U behind it, and may have only the key. In a
    format that packs records, each -U stands for itself.
    """
    keys = table.schema.primary_keys
    if not keys or not rows.num_rows or table.record_format.changes_per_record > 1:
        return rows
    _, moves = first_of_updates(rows, keys)
    if not moves.any():
        return rows
    index, kinds = rows.schema.get_field_index(ROW_KIND_COLUMN), rows.column(ROW_KIND_COLUMN)
    deletes = pc.if_else(pa.array(moves), pa.scalar(NAMES[DELETE], kinds.type), kinds)
    return rows.set_column(index, rows.schema.field(index), deletes)
