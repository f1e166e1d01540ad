"""CALL of a procedure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.procedure import Procedure, Value
from lakelog.sql.runtime.statement import ParsedStatement, Privilege
from lakelog.sql.syntax.lexer import Kind
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.table.model.dynamic_table import open_branch

_BRANCH = "$branch_"


@dataclass(frozen=True)
class Call(ParsedStatement):
    """``CALL [catalog.]sys.procedure(table => 'db.t', …)``; arguments by position, by name, or both in this order.

    A table without a catalog is in that of the procedure, otherwise in the current one. A procedure outside ``sys`` is
    Spark's.
    """

    needs: ClassVar[Privilege] = Privilege.ADMIN
    explain_fault: ClassVar[str] = "EXPLAIN does not describe CALL: write the CALL without EXPLAIN"

    procedure: Name
    positional: tuple[Value, ...]
    named: Mapping[str, Value]

    @classmethod
    def parse(cls, cursor: TokenStream) -> Call | None:
        """Reads the statement; None if the procedure is not in ``sys``."""
        cursor.expect_words("CALL")
        name = cursor.name("a procedure such as sys.compact")
        if len(name.parts) < 2 or name.parts[-2].lower() != "sys":
            return None
        positional: list[Value] = []
        named: dict[str, Value] = {}
        cursor.expect_symbol("(", f" after {name}")
        while not cursor.accept_symbol(")"):
            key = _argument_name(cursor)
            if key is None and named:
                cursor.fail("an argument without a name cannot follow one with a name")
            if key is None:
                positional.append(_value(cursor))
            elif key in named:
                cursor.fail(f"argument '{key}' is given twice")
            else:
                named[key] = _value(cursor)
            if not cursor.at_symbol(")"):
                cursor.expect_symbol(",", " or ')'")
        cursor.expect_end()
        return cls(cursor.source, name, tuple(positional), named)

    def run(self, session: SessionContext) -> object:
        """Runs the procedure. Raises InvalidRequest for invalid arguments, NotFound, and the procedure's errors."""
        named_catalog = len(self.procedure.parts) == 3
        catalog = session.catalogs.find(self.procedure.parts[0]) if named_catalog else session.current_catalog
        if catalog is None:
            return session.engine.pass_through(self.source.text)
        procedure: Procedure = PROCEDURES.load(self.procedure.parts[-1].lower())
        named = dict(self.named)
        if self.positional and "table" in named:
            raise InvalidRequest(f"the table is given twice: write {procedure.usage}")
        given = self.positional[0] if self.positional else named.pop("table", None)
        if not isinstance(given, str):
            raise InvalidRequest(f"the first argument is the table, such as 'db.t': write {procedure.usage}")
        name, _, branch = given.partition(_BRANCH)
        identifier = session.identifier(name, catalog)
        table = session.tables.open(identifier)
        target = open_branch(table, branch) if branch else table

        def alter(changes: Sequence[SchemaChange]) -> object:
            if branch:
                raise UnsupportedFeature(f"{procedure.usage} changes the schema, which a branch has from its table")
            return session.tables.alter_table(identifier, changes)

        return procedure.call(target, self.positional[1:], named, session.engine, alter)


def _argument_name(cursor: TokenStream) -> str | None:
    """Skips ``name =>`` if it comes next."""
    token, equals, arrow = cursor.peek(), cursor.peek(1), cursor.peek(2)
    if token is None or token.kind not in (Kind.WORD, Kind.QUOTED) or equals is None or arrow is None:
        return None
    if not equals.is_symbol("=") or not arrow.is_symbol(">"):
        return None
    name = cursor.name_part().lower()
    cursor.expect_symbol("=")
    cursor.expect_symbol(">")
    return name


def _value(cursor: TokenStream) -> Value:
    if cursor.accept_words("NULL"):
        return None
    if cursor.accept_words("TRUE"):
        return True
    if cursor.accept_words("FALSE"):
        return False
    if cursor.at_text():
        return cursor.text_literal("a value")
    return cursor.integer("a text in quotes, a whole number, true, false or NULL")
