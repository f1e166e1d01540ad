"""CREATE CATALOG."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from lakelog.errors import InvalidOption, UnsupportedStatement
from lakelog.sql.ddl.table_definition import PROVIDERS
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.token_stream import TokenStream

_TYPE = "type"


@dataclass(frozen=True)
class CreateCatalog(ParsedStatement):
    """``CREATE CATALOG [IF NOT EXISTS] name [COMMENT '…'] WITH ('warehouse' = '…', …)``, in Flink's form.

    The catalog belongs to the session only. Its options may be secrets, so no error prints them.
    """

    needs: ClassVar[Privilege] = Privilege.ADMIN

    name: str
    if_not_exists: bool
    options: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateCatalog:
        """Reads the statement; its comment is ignored. Raises UnsupportedStatement without the text of the line."""
        cursor.expect_words("CREATE", "CATALOG")
        if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
        name = cursor.name_part("a catalog name")
        if cursor.accept_words("COMMENT"):
            cursor.text_literal("the comment of the catalog")
        try:
            cursor.expect_words("WITH")
            options = cursor.options()
            cursor.expect_end()
        except UnsupportedStatement as refused:
            location = str(refused).partition(": ")[0]
            raise UnsupportedStatement(
                f"{location}: the options of catalog '{name}' are invalid from here: write CREATE CATALOG {name} WITH "
                "('warehouse' = '…', 'catalog.type' = '…', …)"
            ) from None
        return cls(cursor.source, name, if_not_exists, options)

    def run(self, session: SessionContext) -> object:
        """Adds the catalog. Raises AlreadyExists unless IF NOT EXISTS, InvalidOption."""
        if self.if_not_exists and session.catalogs.has(self.name):
            return empty_result()
        options = dict(self.options)
        kind = options.pop(_TYPE, PROVIDERS[0])
        if kind.lower() not in PROVIDERS:
            raise InvalidOption(
                f"catalog '{self.name}' of type '{kind}' is not a lakelog catalog: set Spark's "
                f"'spark.sql.catalog.{self.name}'"
            )
        session.create_catalog(self.name, options)
        return empty_result()
