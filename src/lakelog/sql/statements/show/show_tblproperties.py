"""SHOW TBLPROPERTIES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.options.log import shown_value
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, text_rows
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class ShowTblproperties(TableStatement):
    """``SHOW TBLPROPERTIES name [('key')]``."""

    needs: ClassVar[Privilege] = Privilege.READ

    key: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowTblproperties:
        """Reads the statement."""
        cursor.expect_words("SHOW", "TBLPROPERTIES")
        name, key = cursor.name(), None
        if cursor.accept_symbol("("):
            key = cursor.option_key()
            cursor.expect_symbol(")")
        cursor.expect_end()
        return cls(cursor.source, name, key)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row an option: key, value; secrets are masked. Raises NotFound."""
        options = {k: shown_value(k, v) for k, v in sorted(schema.options.items())}
        if self.key is None:
            return text_rows(("key", "value"), options.items())
        missing = f"Table {self.name} does not have property: {self.key}"
        return text_rows(("key", "value"), [(self.key, options.get(self.key, missing))])
