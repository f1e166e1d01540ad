"""Merge engine ``partial-update``: columns are updated one by one, NULL updates nothing (format sheet, 8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidOption, InvalidSchema
from lakelog.merge.aggregate import Aggregate, ColumnEngine
from lakelog.merge.aggregates import make_aggregate
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN, Contested, Mask, Piece
from lakelog.merge.keys import Numbers
from lakelog.merge.sequence_groups import SequenceGroup, groups_of, is_newer, removals
from lakelog.merge.steps import ADD, ADD_REVERSED, RETRACT, SET, SKIP, Ops, Steps
from lakelog.options.fields import AGGREGATE_FUNCTION, FieldOptions, split_names
from lakelog.options.option import Option, Options
from lakelog.options.table import DEFAULT_AGGREGATE, IGNORE_DELETE, PARTIAL_REMOVE_ON_DELETE, PARTIAL_REMOVE_ON_GROUP
from lakelog.paimon.rows.row_kind import DELETE, INSERT
from lakelog.paimon.schema.schema import TableSchema

_NEWEST = "primary-key"
"""The function of columns that follow the newest row of any kind."""


class PartialUpdate(ColumnEngine):
    """Each non-NULL value replaces the one before it; columns of a sequence group follow its newest row.

    Rows of kind -U and -D are dropped (``ignore-delete``), delete the key (``partial-update.remove-record-on-delete``,
    ``…-on-sequence-group``), or are taken back in the sequence groups in which they are newer. If the oldest row of a
    key is one of them, all columns start with its values, as in the format's own engine.
    """

    null_keeps: ClassVar[bool] = True

    remove_option: ClassVar[Option[bool] | None] = PARTIAL_REMOVE_ON_DELETE

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self._options = Options(schema.options)
        remove_on = split_names(self._options.get_typed(PARTIAL_REMOVE_ON_GROUP))
        self._remove_on_delete = self._options.need(PARTIAL_REMOVE_ON_DELETE)
        self._groups = groups_of(schema, remove_on)
        self._group_of = {name: group for group in self._groups for name in group.columns}
        for option, is_set in (
            (IGNORE_DELETE, self.ignore_delete and self._remove_on_delete),
            (IGNORE_DELETE, self.ignore_delete and bool(remove_on)),
            (PARTIAL_REMOVE_ON_DELETE, self._remove_on_delete and bool(self._groups)),
        ):
            if is_set:
                raise InvalidOption(
                    f"option '{option.key}' = 'true' contradicts the table's other options for deletes "
                    "(remove-record-on-… or a sequence group): set one of them"
                )

    @property
    def takes_retractions(self) -> bool:
        return self.ignore_delete or self._remove_on_delete or bool(self._groups)

    def retraction_fault(self, kind: int) -> str | None:
        is_whole = self.ignore_delete or self._remove_on_delete or not self._groups
        return super().retraction_fault(kind) if is_whole else self._column_fault()

    @property
    def keeps_deleted_keys(self) -> bool:
        return super().keeps_deleted_keys or bool(self._groups)

    def folds_parts(self, retracts: bool) -> bool:
        if not self._groups:
            return not retracts or not self._remove_on_delete
        return not retracts and all(self._function(name).is_order_free for name in self._group_of)

    def needed_columns(self, columns: Iterable[str]) -> tuple[str, ...]:
        columns = set(columns)
        needed = list(super().needed_columns(columns))
        for group in self._groups:
            if group.removes or columns & set(group.columns):
                needed += [name for name in group.fields if name not in columns and name not in needed]
        return tuple(needed)

    def _unfolded(self, contested: Contested, is_new: bool) -> Mask:
        if not self._groups:
            return super()._unfolded(contested, is_new)
        is_free = self.folds_parts(retracts=False)
        unfolded: Mask = np.logical_or.reduceat(contested.is_retract | (not is_free), contested.starts)
        return unfolded & is_new

    def _folded(self, contested: Contested) -> dict[str, pa.Array]:
        piece = contested.piece
        if contested.is_retract.any() and not self.takes_retractions:
            raise InvalidSchema(
                "merge engine 'partial-update' accepts no rows of kind -U or -D: set 'ignore-delete' or "
                "'partial-update.remove-record-on-delete' to 'true', or use sequence groups"
            )
        if self._remove_on_delete:
            return self._fold_removed(contested)
        rows = _Rows(contested, self.ignore_delete)
        # a projection without a group's sequence fields has no column of that group either
        groups = [g for g in self._groups if set(g.fields) <= set(piece.rows.column_names)]
        ages = {group: rows.ages(group) for group in groups}
        removed = self._removed(rows, ages)
        folded = {KIND_COLUMN: rows.result_kinds(removed), SEQUENCE_COLUMN: rows.result_sequences(piece)}
        plain = rows.steps(np.where(contested.is_retract, SKIP, ADD), removed)
        newer = {group: is_newer(ages[group], rows.begins(removed)) for group in groups}
        for name in piece.rows.column_names:
            if name in (KIND_COLUMN, SEQUENCE_COLUMN):
                continue
            group, column = self._group_of.get(name), contested.column(name)
            if group is None:
                self._check_nulls(name, column)
                folded[name] = self._apply(name, column, plain)
                continue
            ops = rows.group_ops(ages[group], newer[group], self._is_aggregated(name))
            folded[name] = self._apply(name, column, rows.steps(ops, removed))
        return folded

    def _fold_removed(self, contested: Contested) -> dict[str, pa.Array]:
        """The rows of a table without groups whose -D rows delete their key: a later row starts anew."""
        steps = self._live_steps(contested)
        folded = {KIND_COLUMN: pa.array(np.where(steps.ops[steps.ends] == SET, DELETE, INSERT).astype(np.int8))}
        for name in contested.piece.rows.column_names:
            if name not in (KIND_COLUMN, SEQUENCE_COLUMN):
                column = contested.column(name)
                self._check_nulls(name, column)
                folded[name] = self._apply(name, column, steps)
        return folded

    @staticmethod
    def _live_steps(contested: Contested) -> Steps:
        counts, is_live = contested.lives(contested.kinds == DELETE)
        ops = np.where(counts & ~contested.is_retract, ADD, SKIP).astype(np.uint8)
        ops[contested.ends[~is_live]] = SET
        return Steps(contested.rows, ops, contested.starts)

    def _steps(self, contested: Contested) -> Steps | None:
        if self._groups or (contested.is_retract.any() and not self._remove_on_delete):
            return None
        return self._live_steps(contested)

    def _removes(self, contested: Contested) -> Mask:
        removed: Mask = (contested.kinds == DELETE) & self._remove_on_delete
        return removed

    def _removed(self, rows: _Rows, ages: dict[SequenceGroup, Numbers]) -> Mask:
        is_delete = (rows.contested.kinds == DELETE) & ~rows.is_ignored
        removing = [numbers for group, numbers in ages.items() if group.removes]
        return removals(removing, is_delete, rows.contested.starts) if removing else np.zeros_like(is_delete)

    def _new_function(self, column: str) -> Aggregate:
        return make_aggregate(self._function_name(column), self.schema.field(column), self.schema.options)

    def _function_name(self, column: str) -> str:
        group = self._group_of.get(column)
        if column in self.schema.primary_keys or (group is not None and column in group.fields):
            return _NEWEST
        name = self._configured_function(column)
        if group is None and name not in (None, "last_non_null_value"):
            raise InvalidOption(
                f"aggregate function '{name}' of column '{column}' needs a sequence group with merge engine "
                f"'partial-update': name the column in a 'fields.<columns>.sequence-group'"
            )
        return name or ("last_non_null_value" if group is None else "last_value")

    def _configured_function(self, column: str) -> str | None:
        function: str | None = FieldOptions(column, self.schema.options).get(AGGREGATE_FUNCTION)
        return function or self._options.get_typed(DEFAULT_AGGREGATE)

    def _is_aggregated(self, column: str) -> bool:
        """True if a column of a group also accepts older rows."""
        return column not in self._group_of[column].fields and self._configured_function(column) is not None

    def _check_nulls(self, name: str, column: pa.Array) -> None:
        if column.null_count and not self._groups and not self.schema.field(name).type.nullable:
            raise InvalidSchema(
                f"column '{name}' is NOT NULL, so every row needs a value for it: write one, or drop NOT NULL"
            )


class _Rows:
    """The contested rows of a piece, and their effect on each column."""

    def __init__(self, contested: Contested, ignore_delete: bool) -> None:
        self.contested = contested
        self.is_ignored: Mask = contested.is_retract & ignore_delete
        # if the oldest row of a key is not an insert, the key starts with its values
        self.first_retracts = contested.starts[contested.is_retract[contested.starts]]

    def ages(self, group: SequenceGroup) -> Numbers:
        """The ages of the rows in a group; 0 for rows that change nothing in it."""
        rows = pa.array(self.contested.rows)
        ages = group.ages([self.contested.column(name).take(rows) for name in group.fields])
        counts = ~self.is_ignored
        counts[self.first_retracts] = True
        return np.where(counts, ages, 0)

    def begins(self, removed: Mask) -> np.ndarray:
        """The rows at which keys start, or restart after a removal."""
        return np.union1d(self.contested.starts, np.flatnonzero(removed))

    def group_ops(self, ages: Numbers, newer: Mask, is_aggregated: bool) -> Ops:
        """The operations of rows on a column of a group; a plain column accepts newer rows only, an aggregated one
        all.
        """
        is_retract = self.contested.is_retract
        ops = np.where(newer, np.where(is_retract, RETRACT, ADD), SKIP)
        if is_aggregated:
            older = (ages > 0) & ~newer
            ops = np.where(older, np.where(is_retract, RETRACT, ADD_REVERSED), ops)
        return np.where(self.is_ignored, SKIP, ops).astype(np.uint8)

    def steps(self, ops: np.ndarray, removed: Mask) -> Steps:
        """The steps of a column; each removal, and each oldest row that is not an insert, sets the values first."""
        ops = np.where(removed, SET, ops).astype(np.uint8)
        starts = self.contested.starts
        before = self.first_retracts
        rows = np.insert(self.contested.rows, before, self.contested.rows[before])
        return Steps(rows, np.insert(ops, before, SET), starts + np.searchsorted(before, starts))

    def result_kinds(self, removed: Mask) -> pa.Array:
        """+I, or -D for keys without an insert and those that the newest row removes."""
        contested = self.contested
        has_insert = np.logical_or.reduceat(~contested.is_retract, contested.starts)
        is_deleted = removed[contested.ends] | ~has_insert
        return pa.array(np.where(is_deleted, DELETE, INSERT).astype(np.int8))

    def result_sequences(self, piece: Piece) -> pa.Array:
        """The sequence number of the newest row that counts, 0 for a key without one."""
        contested = self.contested
        numbers = contested.column(SEQUENCE_COLUMN).to_numpy()[contested.rows]
        steps = Steps(contested.rows, np.zeros(len(contested.rows), np.uint8), contested.starts)
        last = steps.last(~self.is_ignored)
        return pa.array(np.where(last < 0, 0, numbers[last]), pa.int64())
