"""Statements of tags, branches and rollback."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result, text_rows
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.table.commit.seal import named_snapshot
from lakelog.table.read.time_travel import millis_of


@dataclass(frozen=True)
class AlterTableBranch(TableStatement, needs=Privilege.WRITE):
    """``ALTER TABLE name CREATE BRANCH [IF NOT EXISTS] branch [AS OF VERSION n|'tag']``, ``… DROP BRANCH [IF EXISTS]
    branch``: Iceberg's syntax. Without a version, the branch starts at the newest snapshot.
    """

    verb: str
    branch: str
    snapshot: int | None = None
    tag: str | None = None
    only_if: bool = False

    @classmethod
    def parse(cls, cursor: TokenStream) -> AlterTableBranch:
        cursor.expect_words("ALTER", "TABLE")
        name = cursor.name()
        start_token = cursor.take()
        verb = start_token.text.upper()
        if verb not in ("CREATE", "DROP", "DELETE") or cursor.at_words("OR"):
            cursor.fail("a branch can be created or dropped; CALL sys.fast_forward moves main to a branch", start_token)
        cursor.expect_words("BRANCH")
        only_if = cursor.accept_words("IF", "EXISTS") or cursor.accept_words("IF", "NOT", "EXISTS")
        branch, snapshot, tag = cursor.name_part("a branch"), None, None
        if verb == "CREATE" and cursor.accept_words("AS", "OF", "VERSION"):
            if cursor.at_text():
                tag = cursor.text_literal("a tag")
            else:
                snapshot = cursor.integer("the id of a snapshot, or a tag in quotes")
        if cursor.at_words("RETAIN") or cursor.at_words("WITH"):
            cursor.fail("a branch is kept until it is dropped; the table's options set the retention of its snapshots")
        cursor.expect_end()
        return cls(cursor.source, name, verb, branch, snapshot, tag, only_if)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Creates or drops the branch. Raises NotFound, AlreadyExists."""
        table = session.tables.open(identifier)
        store = table.store
        if self.verb != "CREATE":
            if not self.only_if or self.branch in store.branches.list():
                store.branches.delete(self.branch)
            return empty_result()
        snapshot = named_snapshot(table, self.snapshot) if self.tag is None else None
        store.branches.create(self.branch, self.tag, snapshot, if_not_exists=self.only_if)
        return empty_result()


_UNITS = ("DAYS", "HOURS", "MINUTES")


@dataclass(frozen=True)
class AlterTableTag(TableStatement, needs=Privilege.WRITE):
    """``ALTER TABLE name`` with Paimon's and Iceberg's clauses for tags.

    ``CREATE [OR REPLACE] TAG [IF NOT EXISTS] tag [AS OF VERSION n] [RETAIN n DAYS|HOURS|MINUTES]``, ``REPLACE TAG …``,
    ``DROP|DELETE TAG [IF EXISTS] tag``, ``RENAME TAG tag TO other``. The default version is the newest snapshot.
    """

    verb: str
    tag: str
    new_name: str = ""
    snapshot: int | None = None
    retained: timedelta | None = None
    or_replace: bool = False
    only_if: bool = False

    @classmethod
    def parse(cls, cursor: TokenStream) -> AlterTableTag:
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
        table = session.tables.open(identifier)
        tags = table.store.tags
        if self.verb == "RENAME":
            tags.rename(self.tag, self.new_name)
            return empty_result()
        if self.verb in ("DROP", "DELETE"):
            if not self.only_if or tags.exists(self.tag):
                tags.delete(self.tag)
            return empty_result()
        snapshot = named_snapshot(table, self.snapshot)
        if self.verb == "REPLACE" or (self.or_replace and tags.exists(self.tag)):
            tags.replace(self.tag, snapshot, self.retained)
        else:
            tags.create(self.tag, snapshot, self.retained, if_not_exists=self.only_if)
        return empty_result()


@dataclass(frozen=True)
class Restore(TableStatement, needs=Privilege.ADMIN):
    """``RESTORE [TABLE] name TO VERSION AS OF n|'tag'`` or ``TO TIMESTAMP AS OF 'time'``, in Delta's syntax.

    ``argument`` is that of ``CALL sys.rollback_to``: snapshot, tag or timestamp.
    """

    argument: str
    value: str | int

    @classmethod
    def parse(cls, cursor: TokenStream) -> Restore:
        cursor.expect_words("RESTORE")
        cursor.accept_words("TABLE")
        name = cursor.name()
        cursor.expect_words("TO")
        if cursor.accept_words("TIMESTAMP", "AS", "OF"):
            return cls._ended(cursor, name, "timestamp", cursor.text_literal("a time in quotes"))
        cursor.expect_words("VERSION", "AS", "OF")
        if cursor.at_text():
            return cls._ended(cursor, name, "tag", cursor.text_literal("a tag"))
        return cls._ended(cursor, name, "snapshot", cursor.integer("the id of a snapshot, or a tag in quotes"))

    @classmethod
    def _ended(cls, cursor: TokenStream, name: Name, argument: str, value: str | int) -> Restore:
        cursor.expect_end()
        return cls(cursor.source, name, argument, value)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Makes the older state the newest; returns its snapshot's id. Raises NotFound, InvalidRequest."""
        value = millis_of(self.value, session.engine.zone) if self.argument == "timestamp" else self.value
        table = session.tables.open(identifier)
        return PROCEDURES.load("rollback_to").call(table, [], {self.argument: value}, session.engine)


@dataclass(frozen=True)
class ShowTags(TableStatement, needs=Privilege.READ):
    """``SHOW TAGS [IN|FROM] name``, in Paimon's syntax."""

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowTags:
        cursor.expect_words("SHOW", "TAGS")
        if cursor.peek(1) is not None and not cursor.accept_words("IN"):
            cursor.accept_words("FROM")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per tag, by name: tag. Raises NotFound."""
        tags = session.tables.open(identifier).store.tags.list()
        return text_rows(("tag",), ((name,) for name in sorted(tag.name for tag in tags)))
