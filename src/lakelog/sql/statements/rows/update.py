"""UPDATE: sets columns of the rows that meet a condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from lakelog.sql.dml.assignments import Path, cast_nested, own_values, read_assignments
from lakelog.sql.dml.row_changes import UPDATE, Clause, RowsWhere
from lakelog.sql.dml.target import change_rows, resolve_target
from lakelog.sql.dml.views import viewed_table
from lakelog.sql.query.names import check_expression
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege
from lakelog.sql.syntax.fragments import DmlTarget, qualified, read_changed_table, read_fragment
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class Update(ParsedStatement, needs=Privilege.WRITE):
    """``UPDATE name [/*+ OPTIONS(…) */] [[AS] alias] SET column = expression, … [WHERE condition]``."""

    is_explained: ClassVar[bool] = True

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
        if (view := viewed_table(session, self.table)) is not None:
            return replace(self, table=view.table, condition=view.narrowed(self.condition)).run(session)
        table = session.changed_table(self.table.name)
        if table is None:
            return session.engine.pass_through(self.source.text)
        identifier, schema = table
        for text in (*self.values.values(), *([] if self.condition is None else [self.condition])):
            check_expression(text, {self.table.alias: schema.field_names}, f"UPDATE {self.table.name}")
        texts = {c: qualified(v, self.table, None) for c, v in self.values.items()}
        values = own_values(schema, self.table, texts)
        condition = None if self.condition is None else qualified(self.condition, self.table, None)
        target = resolve_target(session, identifier, self.table, schema, [UPDATE])
        clause = Clause(UPDATE, condition, values)

        def cast() -> RowsWhere:
            return RowsWhere(target, *cast_nested(session, schema, str(self.table.name), target.relation, [clause]))

        return change_rows(session, identifier, RowsWhere(target, clause), self.table.options, cast)
