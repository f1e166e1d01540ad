"""ALTER TABLE … CREATE and DROP BRANCH."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class AlterTableBranch(TableStatement):
    """``ALTER TABLE name CREATE BRANCH [IF NOT EXISTS] branch [AS OF VERSION n|'tag']``, ``… DROP BRANCH [IF EXISTS]
    branch``: Iceberg's syntax. Without a version, the branch starts at the newest snapshot.
    """

    needs: ClassVar[Privilege] = Privilege.WRITE

    verb: str
    branch: str
    snapshot: int | None = None
    tag: str | None = None
    only_if: bool = False

    @classmethod
    def parse(cls, cursor: TokenStream) -> AlterTableBranch:
        """Reads the statement."""
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
        store = session.tables.open(identifier).store
        if self.verb != "CREATE":
            if not self.only_if or self.branch in store.branches.list():
                store.branches.delete(self.branch)
            return empty_result()
        snapshot = self.snapshot
        if snapshot is None and self.tag is None and (newest := store.latest_snapshot()) is not None:
            snapshot = newest.id
        store.branches.create(self.branch, self.tag, snapshot, if_not_exists=self.only_if)
        return empty_result()
