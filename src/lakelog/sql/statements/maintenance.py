"""Statements that compact, clean and analyze tables, and CALL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.procedure import Procedure, Value
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, TableStatement, empty_result
from lakelog.sql.syntax.clauses import PartitionClause, read_partition
from lakelog.sql.syntax.fragments import read_fragment
from lakelog.sql.syntax.lexer import Kind, quoted_name, quoted_text
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.table.model.dynamic_table import open_branch


@dataclass(frozen=True)
class AnalyzeTable(TableStatement, needs=Privilege.WRITE):
    """``ANALYZE TABLE name COMPUTE STATISTICS [FOR ALL COLUMNS | FOR COLUMNS a, b]``; () means the table only."""

    columns: tuple[str, ...] | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> AnalyzeTable:
        cursor.expect_words("ANALYZE", "TABLE")
        name = cursor.name()
        cursor.expect_words("COMPUTE", "STATISTICS")
        columns: tuple[str, ...] | None = ()
        if cursor.accept_words("FOR", "ALL", "COLUMNS"):
            columns = None
        elif cursor.accept_words("FOR", "COLUMNS"):
            listed = [cursor.name_part("a column")]
            while cursor.accept_symbol(","):
                listed.append(cursor.name_part("a column"))
            columns = tuple(listed)
        cursor.expect_end()
        return cls(cursor.source, name, columns)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Computes and commits the statistics. Raises NotFound, InvalidSchema for an unknown column."""
        by_fold = {name.lower(): name for name in schema.field_names}
        columns = None if self.columns is None else [by_fold.get(c.lower(), c) for c in self.columns]
        session.tables.analyze(identifier, columns)
        return empty_result()


_BRANCH = "$branch_"


@dataclass(frozen=True)
class Call(ParsedStatement, needs=Privilege.ADMIN):
    """``CALL [catalog.]sys.procedure(table => 'db.t', …)``; arguments by position, by name, or both in this order.

    A table without a catalog is in that of the procedure, otherwise in the current one. A procedure outside ``sys`` is
    Spark's.
    """

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
        table_name = self.positional[0] if self.positional else named.pop("table", None)
        if not isinstance(table_name, str):
            raise InvalidRequest(f"the first argument is the table, such as 'db.t': write {procedure.usage}")
        name, _, branch = table_name.partition(_BRANCH)
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


@dataclass(frozen=True)
class CompactTable(TableStatement, needs=Privilege.ADMIN):
    """``ALTER TABLE name [PARTITION (…)] COMPACT`` of FLIP-188: ``CALL sys.compact``."""

    partition: PartitionClause | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> CompactTable:
        cursor.expect_words("ALTER", "TABLE")
        name = cursor.name()
        partition = read_partition(cursor, must_have_values=True)
        cursor.expect_words("COMPACT")
        cursor.expect_end()
        return cls(cursor.source, name, partition)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Compacts the table, or the partitions with these values, fully; one row of counts. Raises InvalidSchema."""
        values = {} if self.partition is None else self.partition.own_values(schema, self.name, session.engine.zone)
        parts = [
            f"{quoted_name(name)} " + ("IS NULL" if value is None else f"= {quoted_text(value)}")
            for name, value in values.items()
        ]
        table = session.tables.open(identifier)
        return PROCEDURES.load("compact").call(table, [], {"where": " AND ".join(parts) or None}, session.engine)


@dataclass(frozen=True)
class Optimize(TableStatement, needs=Privilege.ADMIN):
    """``OPTIMIZE name [WHERE condition on partition columns] [ZORDER BY (a, b)]`` of Delta: ``CALL sys.compact``."""

    where: str | None
    z_order: tuple[str, ...]

    @classmethod
    def parse(cls, cursor: TokenStream) -> Optimize:
        cursor.expect_words("OPTIMIZE")
        name = cursor.name()
        where = read_fragment(cursor, "a condition", "ZORDER") if cursor.accept_words("WHERE") else None
        columns: tuple[str, ...] = ()
        if cursor.accept_words("ZORDER"):
            cursor.expect_words("BY")
            within = cursor.at_symbol("(")
            columns = cursor.names_in_parentheses("a column") if within else cursor.names("a column")
        cursor.expect_end()
        return cls(cursor.source, name, where, columns)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Compacts the table fully; one row of counts. Raises NotFound, InvalidRequest, InvalidSchema."""
        table = session.tables.open(identifier)
        order = (
            {"order_strategy": "zorder", "order_by": ", ".join(map(quoted_name, self.z_order))} if self.z_order else {}
        )
        return PROCEDURES.load("compact").call(table, [], {"where": self.where, **order}, session.engine)


_WRITERS_H = 24
"""Minimum age of deleted files: a younger file may belong to a commit in progress."""


@dataclass(frozen=True)
class Vacuum(TableStatement, needs=Privilege.ADMIN):
    """``VACUUM name [RETAIN n HOURS] [DRY RUN]``, in Delta's syntax: expires snapshots and removes orphan files."""

    hours: int | None
    dry_run: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> Vacuum:
        cursor.expect_words("VACUUM")
        name = cursor.name()
        hours = None
        if cursor.accept_words("RETAIN"):
            hours = cursor.integer("a number of hours")
            cursor.expect_words("HOURS")
        dry_run = cursor.accept_words("DRY", "RUN")
        cursor.expect_end()
        return cls(cursor.source, name, hours, dry_run)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Removes older snapshots and files; with DRY RUN it lists the unreferenced files. Raises NotFound.

        Returns the numbers of snapshots and files. Without RETAIN, the table's options apply to snapshots.
        """
        table = session.tables.open(identifier)
        orphans = {"older_than": f"{max(self.hours or 0, _WRITERS_H)} h", "dry_run": self.dry_run}
        if self.dry_run:
            return PROCEDURES.load("remove_orphan_files").call(table, [], orphans, session.engine)
        older = {} if self.hours is None else {"older_than": f"{self.hours} h", "retain_min": 1}
        expired: pa.Table = PROCEDURES.load("expire_snapshots").call(table, [], older, session.engine)
        removed: pa.Table = PROCEDURES.load("remove_orphan_files").call(table, [], orphans, session.engine)
        for name in removed.column_names:
            expired = expired.append_column(name, removed[name])
        return expired
