"""Common part of UPDATE, DELETE and MERGE: the target table, and the write of its changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from lakelog.catalog.base import Identifier
from lakelog.errors import CommitConflict, InvalidRequest, LakelogError
from lakelog.paimon.schema.changes import AddColumn
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import ArrayType, DataField, DataType, MapType, RowType
from lakelog.sql.dml.assignments import Path
from lakelog.sql.dml.explained import ExplainingEngine
from lakelog.sql.dml.merge import Merge
from lakelog.sql.dml.row_changes import ChangesRows, RowChange, Target
from lakelog.sql.query.planner import plan_query
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.runtime.statement import counts_row, insert_result
from lakelog.sql.syntax.fragments import DmlTarget
from lakelog.sql.syntax.source_text import SourceText
from lakelog.table.model.row_counts import RowCounts, row_counts

_ATTEMPTS = 5


def resolve_target(
    session: SessionContext, identifier: Identifier, changed: DmlTarget, schema: TableSchema, actions: Collection[str]
) -> Target:
    """The target table for a query.

    Raises UnsupportedFeature for an unsupported change, InvalidRequest if a name refers to a view.
    """
    if session.is_hidden(changed.name):
        raise InvalidRequest(
            f"'{changed.name}' is a temporary view, which hides table '{identifier}': write the table's name with "
            "its database, or drop the view"
        )
    options = session.tables.canonical_options(changed.options, "write")
    support = session.tables.changeable(identifier, actions, options)
    columns, keys = tuple(schema.field_names), tuple(schema.primary_keys)
    types = session.engine.simple_types(identifier)
    checks = not session.engine.checks_casts()
    return Target(changed.name.sql, changed.alias, columns, keys, types, support.newer, support.emits_before, checks)


def with_schema_evolution(
    session: SessionContext,
    identifier: Identifier,
    schema: TableSchema,
    query: str,
    named: Collection[str] | None = None,
) -> tuple[TableSchema, tuple[str, ...]]:
    """WITH SCHEMA EVOLUTION: the schema with the new columns of a query, and all columns of the query.

    It adds the columns, and the new fields of structs, as ALTER TABLE ADD COLUMN does; only of the ``named`` columns
    (lower case), if given. They stay if the statement fails.
    """
    columns = session.engine.columns_of(_planned(session, query))
    own = {name.lower(): name for name in schema.field_names}
    chosen = [(name, kind) for name, kind in columns if named is None or name.lower() in named]
    added = [change for name, kind in chosen for change in _new_fields((), schema.fields, name, kind)]
    if added:
        session.tables.alter_table(identifier, added)
        schema = session.tables.load_schema(identifier) or schema
    return schema, tuple(own.get(name.lower(), name) for name, _ in columns)


def _new_fields(path: Path, fields: Sequence[DataField], name: str, kind: DataType) -> Iterator[AddColumn]:
    """The fields of a column of a query that the columns ``fields`` lack, also in its structs, arrays and maps."""
    own = next((field for field in fields if field.name.lower() == name.lower()), None)
    if own is None:
        yield AddColumn((*path, name), kind.with_nullable(True))
    else:
        yield from _new_parts((*path, own.name), own.type, kind)


def _new_parts(path: Path, own: DataType, given: DataType) -> Iterator[AddColumn]:
    if isinstance(own, RowType) and isinstance(given, RowType):
        for field in given.fields:
            yield from _new_fields(path, own.fields, field.name, field.type)
    elif isinstance(own, ArrayType) and isinstance(given, ArrayType):
        yield from _new_parts((*path, "element"), own.element, given.element)
    elif isinstance(own, MapType) and isinstance(given, MapType):
        yield from _new_parts((*path, "value"), own.value, given.value)


def change_rows(
    session: SessionContext,
    identifier: Identifier,
    change: RowChange,
    given: Mapping[str, str],
    cast: Callable[[], RowChange] | None = None,
) -> object:
    """Changes the rows of a statement in one commit; returns their counts as one row.

    ``cast`` makes the change with nested values in the table's types, for an engine that does not give them itself.
    Rows of a table with a primary key are written again with a row kind. For a table without one, the files with such
    rows are replaced. If a concurrent compaction wins, the statement restarts. Raises CommitConflict after too many
    restarts.
    """
    options = session.tables.canonical_options(given, "write")
    counts = _changed_by_engine(session.engine, identifier, change, options)
    if counts is not None:
        return counts_row(counts)
    change = change if cast is None else cast()
    if change.target.keys or (isinstance(change, Merge) and change.only_inserts):
        plan = _planned(session, change.changes())
        with plan.explained():
            return insert_result(session.engine.insert(identifier, plan, None, options, {}, overwrite=False))
    conflict: CommitConflict | None = None
    for _ in range(_ATTEMPTS):
        try:
            with _read_once(session, change) as same:
                return counts_row(_replace_files(session, identifier, same, options))
        except CommitConflict as why:
            conflict = why
    raise CommitConflict(
        f"table {identifier}: other writers or compactions changed the same files {_ATTEMPTS} times while the "
        "statement ran. The statement changed nothing; run it again when they have finished"
    ) from conflict


def _changed_by_engine(
    engine: object, identifier: Identifier, change: RowChange, options: Mapping[str, str]
) -> RowCounts | None:
    """Lets an engine do the change by itself if it can, again after a conflict. Raises CommitConflict."""
    attempts = _ATTEMPTS if isinstance(engine, ChangesRows) else 0
    for left in reversed(range(attempts)):
        try:
            return engine.change_rows(identifier, change, options) if isinstance(engine, ChangesRows) else None
        except CommitConflict:
            if not left:
                raise
    return None


@contextlib.contextmanager
def _read_once(session: SessionContext, change: RowChange) -> Iterator[RowChange]:
    """The change, with a source that is read once for both of its queries: touched files and remaining rows.

    Else a source row that came in between, or that ``rand()`` has chosen only then, would change some of its rows.
    """
    is_explained = isinstance(session.engine, ExplainingEngine)
    if not isinstance(change, Merge) or change.touched() is None or is_explained:
        yield change
        return
    plan = _planned(session, f"SELECT * FROM {change.source}")
    with plan.explained(), session.engine.materialized(plan) as view:
        yield replace(change, source=view)


def _replace_files(
    session: SessionContext, identifier: Identifier, change: RowChange, options: Mapping[str, str]
) -> RowCounts:
    query = change.touched()
    plan = None if query is None else _planned(session, query)
    with contextlib.nullcontext() if plan is None else plan.explained():
        touched = session.engine.files_of(identifier, plan, options)
    if not touched and not change.adds_rows:
        return row_counts()
    rest = _planned(session, change.of_files(touched).left())
    with rest.explained():
        return session.engine.replace_files(identifier, rest, touched, options)


def _planned(session: SessionContext, query: str) -> QueryPlan:
    return plan_query(session, SourceText(query, 0, len(query)))


def is_of_partitions(
    session: SessionContext, identifier: Identifier, changed: DmlTarget, schema: TableSchema, condition: str | None
) -> bool:
    """True if a DELETE removes whole partitions, or all rows, of a table whose readers need no change per row."""
    options = session.tables.canonical_options(changed.options, "write")
    if session.tables.changeable(identifier, (), options).emits_log:
        return False
    if condition is None:
        return True
    try:
        return parse_filter(condition, schema).columns <= set(schema.partition_keys)
    except LakelogError:
        return False
