"""VACUUM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement
from lakelog.sql.syntax.token_stream import TokenStream

_WRITERS_H = 24
"""Minimum age of deleted files: a younger file may belong to a commit in progress."""


@dataclass(frozen=True)
class Vacuum(TableStatement):
    """``VACUUM name [RETAIN n HOURS] [DRY RUN]``, in Delta's syntax: expires snapshots and removes orphan files."""

    needs: ClassVar[Privilege] = Privilege.ADMIN

    hours: int | None
    dry_run: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> Vacuum:
        """Reads the statement."""
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
