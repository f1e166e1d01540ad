"""Changes of keys: the row before and the row after of each, as changelog rows (format sheet 9). Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidOption
from lakelog.merge.base import KIND_COLUMN, Mask
from lakelog.options.changelog import CHANGELOG_DEDUPLICATE_IGNORES, CHANGELOG_ROW_DEDUPLICATE
from lakelog.options.fields import split_names
from lakelog.options.option import Options
from lakelog.paimon.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema


def compared_columns(schema: TableSchema) -> tuple[str, ...] | None:
    """The columns that must differ to emit an update; None: every update is emitted (no row-deduplicate).

    Called once per compaction. Raises InvalidOption if ignored columns do not exist.
    """
    options = Options(schema.options)
    if not options.need(CHANGELOG_ROW_DEDUPLICATE):
        return None
    ignored = split_names(options.get_typed(CHANGELOG_DEDUPLICATE_IGNORES))
    unknown = [name for name in ignored if name not in schema.field_names]
    if unknown:
        raise InvalidOption(
            f"option '{CHANGELOG_DEDUPLICATE_IGNORES.key}' = '{', '.join(ignored)}': the table has no column "
            f"'{unknown[0]}'; it has {', '.join(schema.field_names)}"
        )
    return tuple(name for name in schema.field_names if name not in ignored)


def change_rows(
    before: pa.Table,
    after: pa.Table,
    has_before: Mask,
    has_after: Mask,
    compared: Sequence[str] | None = None,
) -> pa.Table:
    """The changelog rows of keys, in key order: +I, -D, or -U and then +U; none without a change.

    ``has_before`` and ``has_after`` have a value for each key, in key order. ``before`` has the rows of the keys with
    an earlier row, ``after`` those with a later one. Both have the same columns, including ``_VALUE_KIND``; a row of
    kind -D or -U means that the key does not exist. Rows keep their sequence numbers. An update whose ``compared``
    columns are equal is not emitted; None emits all. Called by compactions that make a changelog.
    """
    before_is_live, after_is_live = _live(before, has_before), _live(after, has_after)
    is_update = before_is_live & after_is_live
    if compared is not None and is_update.any():
        old = before.filter(pa.array(is_update[has_before]))
        new = after.filter(pa.array(is_update[has_after]))
        is_update[is_update] = ~same_rows(old, new, compared)
    is_delete, is_insert = before_is_live & ~after_is_live, after_is_live & ~before_is_live
    is_emitted = np.column_stack([is_delete | is_update, is_insert | is_update])
    rows = np.column_stack([np.cumsum(has_before) - 1, np.cumsum(has_after) - 1 + before.num_rows])
    kinds = np.column_stack(
        [np.where(is_delete, DELETE, UPDATE_BEFORE), np.where(is_insert, INSERT, UPDATE_AFTER)]
    ).astype(np.int8)
    emitted = pa.concat_tables([before, after]).take(pa.array(rows[is_emitted]))
    at = emitted.schema.get_field_index(KIND_COLUMN)
    return emitted.set_column(at, emitted.schema.field(at), pa.array(kinds[is_emitted]))


def same_rows(one: pa.Table, other: pa.Table, columns: Sequence[str]) -> Mask:
    """A mask of the rows with the same values in ``columns`` as the row at the same position of the other table."""
    same = np.ones(one.num_rows, dtype=np.bool_)
    for name in columns:
        same &= equal(one.column(name), other.column(name))
    return same


def equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Mask:
    """A row-by-row mask of equal values: NULL equals NULL, NaN equals NaN, 0.0 does not equal -0.0."""
    if pa.types.is_floating(one.type):
        bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}[one.type]
        one, other = (pa.chunked_array([c.view(bits) for c in side.chunks], bits) for side in (one, other))
    if pa.types.is_nested(one.type):
        # Arrow does not compare nested values by row
        return np.fromiter((a == b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)), np.bool_)
    same = pc.fill_null(pc.equal(one, other), False)
    nulls = pc.and_(pc.is_null(one), pc.is_null(other))
    is_equal: Mask = pc.or_(same, nulls).to_numpy()
    return is_equal


def _live(rows: pa.Table, has_row: Mask) -> Mask:
    """A mask of the keys with a row that is not a delete."""
    kinds = rows.column(KIND_COLUMN).to_numpy()
    out = np.zeros(len(has_row), dtype=np.bool_)
    out[has_row] = (kinds == INSERT) | (kinds == UPDATE_AFTER)
    return out
