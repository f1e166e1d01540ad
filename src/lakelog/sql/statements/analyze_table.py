"""ANALYZE TABLE."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import done
from lakelog.sql.statement import ParsedStatement


@dataclass(frozen=True)
class AnalyzeTable(ParsedStatement):
    """``ANALYZE TABLE name COMPUTE STATISTICS [FOR ALL COLUMNS | FOR COLUMNS a, b]``; () is the table alone."""

    name: Name
    columns: tuple[str, ...] | None

    @classmethod
    def parse(cls, cursor: Cursor) -> AnalyzeTable:
        """Reads the statement."""
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

    def run(self, session: Context) -> object:
        """Computes and commits the statistics. Raises NotFound, InvalidSchema for an unknown column."""
        found = session.own_table(self.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        identifier, schema = found
        by_fold = {name.lower(): name for name in schema.field_names}
        columns = None if self.columns is None else [by_fold.get(c.lower(), c) for c in self.columns]
        session.tables.analyze(identifier, columns)
        return done()
