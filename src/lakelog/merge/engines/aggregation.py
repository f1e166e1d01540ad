"""Merge engine ``aggregation``: each column is folded by an aggregate function (format sheet, 8)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidOption
from lakelog.merge.aggregate import Aggregate, ColumnEngine
from lakelog.merge.aggregates import make_aggregate
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN, Contested, Mask
from lakelog.merge.steps import ADD, RETRACT, SET, SKIP, Steps
from lakelog.options.fields import AGGREGATE_FUNCTION, FieldOptions
from lakelog.options.option import Option, Options
from lakelog.options.table import AGGREGATION_REMOVE_ON_DELETE, DEFAULT_AGGREGATE, SEQUENCE_FIELD
from lakelog.paimon.rows.row_kind import DELETE, INSERT
from lakelog.paimon.schema.schema import TableSchema


class Aggregation(ColumnEngine):
    """Folds each column by its function: ``fields.<column>.aggregate-function``, else the default.

    Without either it keeps the newest value that is not NULL. Rows of kind -U and -D are taken back. With
    ``aggregation.remove-record-on-delete`` a -D deletes the key instead, and a later row starts anew.
    """

    remove_option: ClassVar[Option[bool] | None] = AGGREGATION_REMOVE_ON_DELETE

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self._options = Options(schema.options)
        self._remove_on_delete = self._options.need(AGGREGATION_REMOVE_ON_DELETE)

    def check_options(self) -> None:
        super().check_options()
        functions = map(self._function, self.schema.field_names)
        summed = next((f for f in functions if not f.is_of_newest), None)
        if self._remove_on_delete and self.sequence_fields and summed is not None:
            raise InvalidOption(
                f"option '{AGGREGATION_REMOVE_ON_DELETE.key}' = 'true' does not go with '{SEQUENCE_FIELD.key}' = "
                f"'{', '.join(self.sequence_fields)}' and aggregate function '{summed.name}' of column "
                f"'{summed.field.name}': a -D may arrive late, when older and newer values are joined already. "
                f"Leave out '{SEQUENCE_FIELD.key}', or use last_value or last_non_null_value"
            )

    def retraction_fault(self, kind: int) -> str | None:
        if self.ignore_delete or (kind == DELETE and self._remove_on_delete):
            return None
        return self._column_fault()

    @property
    def keeps_deleted_keys(self) -> bool:
        return super().keeps_deleted_keys or not self._remove_on_delete

    def folds_parts(self, retracts: bool) -> bool:
        if not retracts:
            return True
        functions = map(self._function, self.schema.field_names)
        return not self._remove_on_delete and all(f.retracts_in_parts or f.ignore_retract for f in functions)

    def _unfolded(self, contested: Contested, is_new: bool) -> Mask:
        functions = map(self._function, self.schema.field_names)
        is_apart = all(f.retracts_in_parts or f.retracts_apart or f.ignore_retract for f in functions)
        if not is_new or (is_apart and not self._remove_on_delete):
            return super()._unfolded(contested, is_new)
        # a -D that removes stays beside the folded rows
        counts = contested.is_retract & ~self._removes(contested)
        unfolded: Mask = np.logical_or.reduceat(counts, contested.starts)
        return unfolded

    def _folded(self, contested: Contested) -> dict[str, pa.Array]:
        steps = self._steps(contested)
        folded = {KIND_COLUMN: pa.array(np.where(steps.ops[steps.ends] == SET, DELETE, INSERT).astype(np.int8))}
        for name in contested.piece.rows.column_names:
            if name not in (KIND_COLUMN, SEQUENCE_COLUMN):
                folded[name] = self._apply(name, contested.column(name), steps)
        return folded

    def _removes(self, contested: Contested) -> Mask:
        removed: Mask = (contested.kinds == DELETE) & self._remove_on_delete
        return removed

    def _steps(self, contested: Contested) -> Steps:
        ops = np.where(contested.is_retract, RETRACT, ADD).astype(np.uint8)
        if self._remove_on_delete:
            counts, is_live = contested.lives(self._removes(contested))
            ops[~counts] = SKIP
            ops[contested.ends[~is_live]] = SET
        return Steps(contested.rows, ops, contested.starts)

    def _new_function(self, column: str) -> Aggregate:
        function = make_aggregate(self._function_name(column), self.schema.field(column), self.schema.options)
        if self._remove_on_delete and function.ignore_retract:
            raise InvalidOption(
                f"options 'fields.{column}.ignore-retract' and '{AGGREGATION_REMOVE_ON_DELETE.key}' contradict "
                f"each other: set one of them"
            )
        return function

    def _function_name(self, column: str) -> str:
        if column in self.sequence_fields:
            return "primary-key"
        if column in self.schema.primary_keys:
            return "primary-key"
        function: str | None = FieldOptions(column, self.schema.options).get(AGGREGATE_FUNCTION)
        return function or self._options.get_typed(DEFAULT_AGGREGATE) or "last_non_null_value"
