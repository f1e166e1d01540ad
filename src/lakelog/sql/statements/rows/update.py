"""UPDATE: sets columns of the rows that meet a condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.dml.assignments import Path, own_values, read_assignments
from lakelog.sql.dml.explanation import ChangingStatement, Explanation, explained_change
from lakelog.sql.dml.nested_values import cast_nested
from lakelog.sql.dml.row_changes import UPDATE, Clause, RowChange, RowsWhere
from lakelog.sql.dml.target import change_rows, resolve_target
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege
from lakelog.sql.syntax.fragments import DmlTarget, qualified, read_changed_table, read_fragment
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class Update(ChangingStatement):
    """``UPDATE name [/*+ OPTIONS(…) */] [[AS] alias] SET column = expression, … [WHERE condition]``."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    table: DmlTarget
    values: Mapping[Path, str]
    condition: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> Update:
        """Reads the statement; the expressions stay text."""
        cursor.check_parentheses()
        cursor.expect_words("UPDATE")
        table = read_changed_table(cursor, "SET")
        cursor.expect_words("SET")
        values = read_assignments(cursor, table, "WHERE")
        condition = read_fragment(cursor, "a condition") if cursor.accept_words("WHERE") else None
        cursor.expect_end()
        return cls(cursor.source, table, values, condition)

    def run(self, session: SessionContext) -> object:
        """Updates. Raises NotFound, InvalidSchema, UnsupportedFeature."""
        found = session.changed_table(self.table.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        return change_rows(session, found[0], self._change(session, *found), self.table.options)

    def explanation(self, session: SessionContext) -> Explanation | None:
        """The rows that it would write. Raises as ``run`` does."""
        found = session.changed_table(self.table.name)
        return None if found is None else explained_change(session, found[0], UPDATE, self._change(session, *found))

    def _change(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> RowChange:
        given = {c: qualified(v, self.table, None) for c, v in self.values.items()}
        values = own_values(schema, self.table, given)
        condition = None if self.condition is None else qualified(self.condition, self.table, None)
        target = resolve_target(session, identifier, self.table, schema, [UPDATE])
        clause = Clause(UPDATE, condition, values)
        (cast,) = cast_nested(session, schema, str(self.table.name), target.relation, [clause])
        return RowsWhere(target, cast)
