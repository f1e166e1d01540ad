"""CHECK constraints against the rows of a table: which rows violate them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import ConstraintViolation, InvalidRequest, InvalidSchema
from lakelog.filestore.metadata.schemas import rows_as
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.options.constraints import FAIL, REJECT, WARN, Constraint, constraints_of, has_constraints
from lakelog.options.metrics import ROWS_IN_DOUBT
from lakelog.options.parts import CONDITIONS
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.model.dynamic_table import DynamicTable

_LOG: Final = logging.getLogger("lakelog.write")
SHOWN: Final = 3
"""Number of rows that an error or a warning shows."""
_LONGEST_ROW: Final = 200
"""Maximum number of characters of a row in an error."""
NEW_KINDS: Final = (INSERT, UPDATE_AFTER)
"""Kinds of rows that are checked; the others take a row back that the table has."""


def violated(constraint: Constraint, schema: TableSchema) -> Predicate:
    """The condition that is true where a constraint is false; where it is NULL, a row is valid, as in SQL.

    Raises InvalidSchema for a column that the table does not have, InvalidRequest for a condition that cannot be read.
    """
    parse = CONDITIONS.load("sql")
    try:
        condition: Predicate = parse(constraint.condition, schema)
    except InvalidRequest as why:
        raise type(why)(f"constraint '{constraint.name}': {why}") from None
    return condition.negated()


def check_constraints(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Checks the constraints of a new schema.

    Raises InvalidSchema for a change that takes a column from a constraint, InvalidOption, InvalidRequest.
    """
    kept = {} if before is None else {constraint.name: constraint for constraint in constraints_of(before.options)}
    for constraint in constraints_of(schema.options):
        old = kept.get(constraint.name)
        if before is not None and old is not None and old.condition == constraint.condition:
            ids = {field.name: field.id for field in schema.fields}
            for column in sorted(violated(old, before).columns):
                if ids.get(column) != before.field(column).id:
                    raise InvalidSchema(
                        f"column '{column}' cannot be dropped or renamed: constraint '{old.name}' uses it. Run ALTER "
                        f"TABLE … DROP CONSTRAINT {old.name} first"
                    )
        violated(constraint, schema)


@dataclass(frozen=True)
class RowConstraints:
    """The constraints of a table with their conditions, for the rows of one task, which have the columns ``written``.

    ``schema`` is the newest one of the table, which an ALTER TABLE may have created after the writer opened the table.
    """

    table: str
    schema: TableSchema
    written: TableSchema
    conditions: tuple[tuple[Constraint, Predicate], ...]

    @staticmethod
    def of(table: DynamicTable) -> RowConstraints | None:
        """Those of the newest schema, None without any. Costs a look for a newer schema."""
        schema = table.with_newest_schema().schema
        if not has_constraints(schema.options):
            return None
        order = (FAIL, REJECT, WARN)  # a row that fails the write is never rejected instead
        ours = sorted(constraints_of(schema.options), key=lambda constraint: order.index(constraint.action))
        conditions = tuple((constraint, violated(constraint, schema)) for constraint in ours)
        return RowConstraints(table.name, schema, table.schema, conditions)

    def check(self, rows: pa.RecordBatch, kinds: np.ndarray) -> None:
        """Raises ConstraintViolation if new rows violate a constraint that fails the write or rejects the row."""
        for constraint, bad in self._violations(rows, kinds, warns=False):
            raise ConstraintViolation(
                f"{len(bad):,} of {rows.num_rows:,} rows of a batch violate constraint '{constraint.name}' of table "
                f"{self.table}: CHECK ({constraint.condition}). {rows_text(bad)}",
                is_rejected=constraint.action == REJECT,
            )

    def warn(self, rows: pa.RecordBatch, kinds: np.ndarray) -> None:
        """Counts and logs new rows that violate a constraint with the action ``warn``."""
        for constraint, bad in self._violations(rows, kinds, warns=True):
            METER.add(ROWS_IN_DOUBT, len(bad), table=self.table)
            _LOG.warning(
                "rows violate constraint '%s': CHECK (%s). %s",
                constraint.name,
                constraint.condition,
                rows_text(bad),
                extra=fields(table=self.table, rows=len(bad)),
            )

    def _violations(
        self, rows: pa.RecordBatch, kinds: np.ndarray, warns: bool
    ) -> Iterator[tuple[Constraint, pa.Table]]:
        ours = [both for both in self.conditions if (both[0].action == WARN) == warns]
        if not ours:
            return
        new = pa.Table.from_batches([rows])
        is_new = np.isin(kinds, NEW_KINDS)
        if not is_new.all():
            new = new.filter(pa.array(is_new))
        if self.schema.id != self.written.id:
            new = rows_as(new, self.written, self.schema)
        for constraint, condition in ours:
            bad = new.filter(condition.to_arrow(new.schema))
            if bad.num_rows:
                yield constraint, bad


def rows_text(rows: pa.Table) -> str:
    """Some rows for people, such as ``For example (id=1, v=-2)``."""
    shown = [_row_text(row) for row in rows.slice(0, SHOWN).to_pylist()]
    return f"For example {', '.join(shown)}"


def _row_text(row: dict[str, Any]) -> str:
    text = ", ".join(f"{name}={value}" for name, value in row.items())
    return f"({text if len(text) <= _LONGEST_ROW else text[:_LONGEST_ROW] + '…'})"
