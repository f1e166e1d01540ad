"""DELETE FROM: rows that meet a condition, whole partitions, or all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lakelog.sql.dml.row_changes import DELETE, Clause, RowsWhere
from lakelog.sql.dml.target import change_rows, is_of_partitions, resolve_target
from lakelog.sql.dml.views import viewed_table
from lakelog.sql.query.names import check_expression
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, counts_row
from lakelog.sql.syntax.fragments import DmlTarget, qualified, read_changed_table, read_fragment
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class Delete(ParsedStatement, needs=Privilege.WRITE):
    """``DELETE FROM name [/*+ OPTIONS(…) */] [[AS] alias] [WHERE condition]``."""

    is_explained: ClassVar[bool] = True

    table: DmlTarget
    condition: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> Delete:
        """Reads the statement; the condition stays text."""
        cursor.check_parentheses()
        cursor.expect_words("DELETE", "FROM")
        table = read_changed_table(cursor, "WHERE")
        condition = read_fragment(cursor, "a condition") if cursor.accept_words("WHERE") else None
        cursor.expect_end()
        return cls(cursor.source, table, condition)

    def run(self, session: SessionContext) -> object:
        """Deletes rows; for a condition on partitions only, whole files. Returns the counts of rows.

        Raises NotFound, UnsupportedFeature.
        """
        if (view := viewed_table(session, self.table)) is not None:
            return replace(self, table=view.table, condition=view.narrowed(self.condition)).run(session)
        table = session.changed_table(self.table.name)
        if table is None:
            return session.engine.pass_through(self.source.text)
        identifier, schema = table
        if self.condition is not None:
            check_expression(self.condition, {self.table.alias: schema.field_names}, f"DELETE FROM {self.table.name}")
        if is_of_partitions(session, identifier, self.table, schema, self.condition):
            options = session.tables.canonical_options(self.table.options, "write")
            partitions = None if self.condition is None else parse_filter(self.condition, schema)
            return counts_row(session.tables.delete(identifier, partitions, options))
        condition = None if self.condition is None else qualified(self.condition, self.table, None)
        target = resolve_target(session, identifier, self.table, schema, [DELETE])
        return change_rows(session, identifier, RowsWhere(target, Clause(DELETE, condition)), self.table.options)
