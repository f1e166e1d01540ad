"""CREATE TABLE … AS SELECT."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lakelog.errors import AlreadyExists, InvalidRequest
from lakelog.sql.ddl.table_definition import Column, TableDefinition, new_table_name
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class CreateTableAs(ParsedStatement):
    """``CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name [clauses] AS query``; a primary key is one of the clauses."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    table: TableDefinition
    query: SourceText

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateTableAs | None:
        """Reads everything but the query; None for a table of Spark."""
        table = TableDefinition.read(cursor)
        if table is None:
            return None
        place = cursor.peek()
        if table.columns:
            cursor.fail(
                "the columns of CREATE TABLE … AS SELECT are the query's: leave out those in parentheses", place
            )
        cursor.accept_words("AS")
        first = cursor.peek()
        if first is None:
            cursor.fail_expected("a query")
        return cls(cursor.source, table, SourceText(cursor.source.script, first.start, cursor.source.end))

    def run(self, session: SessionContext) -> object:
        """Creates and fills the table; if the write fails, the table is dropped. Raises AlreadyExists.

        A streaming query starts a streaming write; the result is its StreamingQuery.
        """
        identifier = session.resolve(self.table.name)
        if not self.table.or_replace and session.exists(identifier):
            if self.table.if_not_exists:
                return empty_result()
            raise AlreadyExists(f"table '{identifier}' exists already")
        plan = plan_query(session, self.query)
        with plan.explained():
            columns = tuple(Column(name, kind, None) for name, kind in session.engine.columns_of(plan))
            table = replace(self.table, columns=columns, if_not_exists=False)
            with new_table_name(session, table) as place:
                table.create(session, place)
                try:
                    result = session.engine.insert(place, plan, None, {}, {}, overwrite=False)
                    if not isinstance(result, dict) and place != identifier:
                        result.stop()
                        raise InvalidRequest(f"a stream cannot replace table '{identifier}': drop it first")
                except BaseException:
                    session.tables.drop_table(place, if_exists=True, purge=True)
                    raise
        return empty_result() if isinstance(result, dict) else result
