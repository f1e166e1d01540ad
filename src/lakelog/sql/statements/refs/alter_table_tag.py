"""ALTER TABLE … CREATE, REPLACE, RENAME and DROP TAG."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result
from lakelog.sql.syntax.token_stream import TokenStream

_UNITS = ("DAYS", "HOURS", "MINUTES")


@dataclass(frozen=True)
class AlterTableTag(TableStatement):
    """``ALTER TABLE name`` with Paimon's and Iceberg's clauses for tags.

    ``CREATE [OR REPLACE] TAG [IF NOT EXISTS] tag [AS OF VERSION n] [RETAIN n DAYS|HOURS|MINUTES]``, ``REPLACE TAG …``,
    ``DROP|DELETE TAG [IF EXISTS] tag``, ``RENAME TAG tag TO other``. The default version is the newest snapshot.
    """

    needs: ClassVar[Privilege] = Privilege.WRITE

    verb: str
    tag: str
    new_name: str = ""
    snapshot: int | None = None
    retained: timedelta | None = None
    or_replace: bool = False
    only_if: bool = False

    @classmethod
    def parse(cls, cursor: TokenStream) -> AlterTableTag:
        """Reads the statement."""
        cursor.expect_words("ALTER", "TABLE")
        name = cursor.name()
        verb = cursor.take().text.upper()
        or_replace = verb == "REPLACE" or cursor.accept_words("OR", "REPLACE")
        cursor.expect_words("TAG")
        only_if = cursor.accept_words("IF", "EXISTS") or cursor.accept_words("IF", "NOT", "EXISTS")
        tag, new_name, snapshot, retained = cursor.name_part("a tag"), "", None, None
        if verb == "RENAME":
            cursor.expect_words("TO")
            new_name = cursor.name_part("the new name of the tag")
        elif verb in ("CREATE", "REPLACE"):
            if cursor.accept_words("AS", "OF", "VERSION"):
                snapshot = cursor.integer("the id of a snapshot")
            if cursor.accept_words("RETAIN"):
                number = cursor.integer("how long the tag is kept, such as 30 DAYS")
                unit = next((unit for unit in _UNITS if cursor.accept_words(unit)), None)
                if unit is None:
                    cursor.fail_expected("DAYS, HOURS or MINUTES")
                retained = timedelta(**{unit.lower(): number})
        cursor.expect_end()
        return cls(cursor.source, name, verb, tag, new_name, snapshot, retained, or_replace, only_if)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Changes the tags. Raises NotFound, AlreadyExists."""
        tags = session.tables.open(identifier).store.tags
        if self.verb == "RENAME":
            tags.rename(self.tag, self.new_name)
        elif self.verb in ("DROP", "DELETE"):
            if not self.only_if or tags.exists(self.tag):
                tags.delete(self.tag)
        elif self.verb == "REPLACE" or (self.or_replace and tags.exists(self.tag)):
            tags.replace(self.tag, self.snapshot, self.retained)
        else:
            tags.create(self.tag, self.snapshot, self.retained, if_not_exists=self.only_if)
        return empty_result()
