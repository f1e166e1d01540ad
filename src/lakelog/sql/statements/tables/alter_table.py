"""ALTER TABLE in Spark's dialect and in Flink's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest
from lakelog.sql.ddl.alter_table import Alteration, read_alterations
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.lexer import Token
from lakelog.sql.syntax.source_text import point_at
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class AlterTable(ParsedStatement):
    """``ALTER TABLE [IF EXISTS] name …``; a table of Spark only is altered by Spark.

    All changes of one statement become one new schema, or none is made. ``problem`` is the syntax error; it is raised
    only for a lakelog table, so that Spark's tables keep Spark's whole syntax.
    """

    needs: ClassVar[Privilege] = Privilege.WRITE

    name: Name
    if_exists: bool
    alterations: tuple[Alteration, ...] = ()
    new_name: Name | None = None
    problem: InvalidRequest | None = None

    @classmethod
    def parse(cls, cursor: TokenStream) -> AlterTable:
        """Reads the statement."""
        cursor.expect_words("ALTER", "TABLE")
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name(most=9)
        try:
            if cursor.accept_words("RENAME", "TO"):
                new_name = cursor.name("the new name of the table")
                cursor.expect_end()
                return cls(cursor.source, name, if_exists, new_name=new_name)
            return cls(cursor.source, name, if_exists, tuple(read_alterations(cursor)))
        except InvalidRequest as problem:
            return cls(cursor.source, name, if_exists, problem=problem)

    def run(self, session: SessionContext) -> object:
        """Changes the table. Raises NotFound unless IF EXISTS, and refused changes' errors with their position."""
        identifier = session.find(self.name) if len(self.name.parts) <= 3 else None
        if identifier is None or not session.exists(identifier):
            if len(self.name.parts) > 3 or session.engine.is_spark_relation(self.name.sql):
                return session.engine.pass_through(self.source.text)
            if self.if_exists:
                return empty_result()
            raise session.no_table(self.name)
        if self.problem is not None:
            raise self.problem
        if self.new_name is not None:
            new_name = self._target(session, identifier, self.new_name)
            session.engine.uncache_table(identifier)
            session.tables.rename_table(identifier, new_name)
            return empty_result()
        try:
            session.tables.alter_table(identifier, [a.change for a in self.alterations])
        except InvalidRequest as refused:
            start_token = self._start_token(session, identifier)
            raise type(refused)(point_at(self.source.script, start_token.start, str(refused))) from None
        return empty_result()

    def _target(self, session: SessionContext, identifier: Identifier, new_name: Name) -> Identifier:
        """A new name without a database stays in the table's own, one without a catalog in the table's catalog."""
        if len(new_name.parts) == 3:
            return session.resolve(new_name)
        return replace(identifier, database=(identifier.database, *new_name.parts)[-2], table=new_name.parts[-1])

    def _start_token(self, session: SessionContext, identifier: Identifier) -> Token:
        """The position of the refused change; that of the first change if it is unknown."""
        schema = session.tables.load_schema(identifier)
        for alteration in self.alterations:
            if schema is None:
                break
            try:
                schema = alteration.change.apply(schema, has_snapshots=True)
            except InvalidRequest:
                return alteration.start_token
        return self.alterations[0].start_token
