"""CREATE OR REPLACE TABLE: the new table is made, and filled, under another name; then names change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lakelog.catalog.base import Identifier
from lakelog.io.names import new_attempt
from lakelog.sql.ddl.table_definition import TableDefinition
from lakelog.sql.runtime.context import SessionContext


@contextmanager
def place_of(session: SessionContext, table: TableDefinition) -> Iterator[Identifier]:
    """The name under which to make a table; at the end of the block it has its own.

    They differ for a table that takes the place of another one. That one stays as it is when the block fails, and is
    dropped, as DROP TABLE does it, once the new one has its name: between two renames there is no table of the name.
    Raises NotFound for REPLACE TABLE of none, UnsupportedFeature where the storage cannot rename.
    """
    identifier = session.resolve(table.name)
    if not table.or_replace or not session.exists(identifier):
        if table.must_exist:
            raise session.no_table(table.name)
        yield identifier
        return
    attempt = new_attempt()
    fresh = replace(identifier, table=f"{identifier.table}__new_{attempt}")
    old = replace(identifier, table=f"{identifier.table}__old_{attempt}")
    yield fresh
    try:
        session.tables.rename_table(identifier, old)
    except BaseException:
        session.tables.drop_table(fresh, if_exists=True, purge=True)
        raise
    try:
        session.tables.rename_table(fresh, identifier)
    except BaseException:
        session.tables.rename_table(old, identifier)
        session.tables.drop_table(fresh, if_exists=True, purge=True)
        raise
    session.tables.drop_table(old, if_exists=True, purge=False)
