"""SHOW TBLPROPERTIES."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.options.log import shown_value
from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import text_rows
from lakelog.sql.statement import ParsedStatement


@dataclass(frozen=True)
class ShowTblproperties(ParsedStatement):
    """``SHOW TBLPROPERTIES name [('key')]``."""

    name: Name
    key: str | None

    @classmethod
    def parse(cls, cursor: Cursor) -> ShowTblproperties:
        """Reads the statement."""
        cursor.expect_words("SHOW", "TBLPROPERTIES")
        name, key = cursor.name(), None
        if cursor.accept_symbol("("):
            key = cursor.option_key()
            cursor.expect_symbol(")")
        cursor.expect_end()
        return cls(cursor.source, name, key)

    def run(self, session: Context) -> object:
        """One row an option: key, value; secrets are masked. Raises NotFound; a relation of Spark's goes to Spark."""
        found = session.own_table(self.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        options = {k: shown_value(k, v) for k, v in sorted(found[1].options.items())}
        if self.key is None:
            return text_rows(("key", "value"), options.items())
        missing = f"Table {self.name} does not have property: {self.key}"
        return text_rows(("key", "value"), [(self.key, options.get(self.key, missing))])
