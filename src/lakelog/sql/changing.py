"""What UPDATE, DELETE and MERGE have in common: the table that they change, and how its changes are written."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping

from lakelog.catalog.base import Identifier
from lakelog.catalog.names import did_you_mean
from lakelog.errors import CommitConflict, InvalidSchema, LakelogError
from lakelog.spec.schema import TableSchema
from lakelog.sql.context import Context
from lakelog.sql.filter_text import parse_filter
from lakelog.sql.merge import Merge
from lakelog.sql.pieces import ChangedTable
from lakelog.sql.plan import QueryPlan
from lakelog.sql.result import done
from lakelog.sql.rewrite import plan_query
from lakelog.sql.row_changes import RowChange, Target
from lakelog.sql.script import StatementText

_ATTEMPTS = 5


def target_of(
    session: Context, identifier: Identifier, changed: ChangedTable, schema: TableSchema, actions: Collection[str]
) -> Target:
    """The table as a query over it needs it. Raises UnsupportedFeature for what its rows cannot be changed by."""
    options = session.tables.canonical_options(changed.options, "write")
    found = session.tables.changeable(identifier, actions, options)
    columns, keys = tuple(schema.field_names), tuple(schema.primary_keys)
    types = session.engine.simple_types(identifier)
    return Target(changed.name.sql, changed.alias, columns, keys, types, found.newer, found.tells_before)


def own_values(schema: TableSchema, table: object, given: Mapping[str, str]) -> dict[str, str]:
    """Assignments by the table's spelling of the columns. Raises InvalidSchema for a column that it does not have."""
    by_fold = {name.lower(): name for name in schema.field_names}
    for name in given:
        if name.lower() not in by_fold:
            near = did_you_mean(name, schema.field_names)
            known = ", ".join(schema.field_names)
            raise InvalidSchema(f"table '{table}' has no column '{name}'{near} Its columns: {known}")
    return {by_fold[name.lower()]: value for name, value in given.items()}


def change_rows(session: Context, identifier: Identifier, change: RowChange, given: Mapping[str, str]) -> object:
    """Changes the rows as the statement says; all of it in one commit, or nothing.

    Rows of a table with a primary key are written again with a row kind. Of one without, the files that have such rows
    are replaced; a compaction that was faster makes the statement begin again. Raises CommitConflict when that happens
    too often.
    """
    options = session.tables.canonical_options(given, "write")
    if change.target.keys or (isinstance(change, Merge) and change.only_inserts):
        plan = _planned(session, change.changes())
        with plan.explained():
            session.engine.insert(identifier, plan, None, options, {}, overwrite=False)
        return done()
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(CommitConflict):
            _replace_files(session, identifier, change, options)
            return done()
    _replace_files(session, identifier, change, options)
    return done()


def _replace_files(session: Context, identifier: Identifier, change: RowChange, options: Mapping[str, str]) -> None:
    query = change.touched()
    plan = None if query is None else _planned(session, query)
    with contextlib.nullcontext() if plan is None else plan.explained():
        touched = session.engine.files_of(identifier, plan, options)
    if not touched and not isinstance(change, Merge):
        return
    rest = _planned(session, change.of_files(touched).left())
    with rest.explained():
        session.engine.replace_files(identifier, rest, touched, options)


def _planned(session: Context, query: str) -> QueryPlan:
    return plan_query(session, StatementText(query, 0, len(query)))


def is_of_partitions(
    session: Context, identifier: Identifier, changed: ChangedTable, schema: TableSchema, condition: str | None
) -> bool:
    """Whether a DELETE takes whole partitions, or all rows, of a table whose readers need not be told of each row."""
    options = session.tables.canonical_options(changed.options, "write")
    if session.tables.changeable(identifier, (), options).tells_log:
        return False
    if condition is None:
        return True
    try:
        return parse_filter(condition, schema).columns <= set(schema.partition_keys)
    except LakelogError:
        return False
