"""Creates, changes and drops materialized views."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.io.clock import now_ms
from lakelog.io.names import new_uuid
from lakelog.options.log import LOG_ENABLED
from lakelog.options.view import VIEW
from lakelog.paimon.schema.changes import SetOption
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.sql.ddl.table_definition import replaced_table
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.tables import forget_view, views_of
from lakelog.sql.views.plan import plan_view
from lakelog.sql.views.refresh import Refresh, ViewRefresher
from lakelog.state.embedded_sql import machine_zone
from lakelog.table.maintenance.retention import expire_best_effort
from lakelog.table.views.definition import ViewDefinition
from lakelog.table.views.rules import check_view_options


def create_view(
    session: SessionContext,
    identifier: Identifier,
    query: str,
    every_ms: int | None,
    options: Mapping[str, str],
    comment: str | None = None,
    or_replace: bool = False,
) -> Refresh:
    """Creates a view and computes its rows; drops it again if that fails.

    With ``or_replace`` the view of this name stays until the new one has its rows.

    ``every_ms`` is that of ``ViewDefinition``; ``options`` are options of its table, which has a log by default. Raises
    the errors of ``plan_view`` and of ``ViewRefresher.refresh``, AlreadyExists, InvalidOption.
    """
    zone = machine_zone() if session.engine.zone is None else str(session.engine.zone)
    definition = ViewDefinition(new_uuid(), query, session.current_catalog, session.database, zone, (), (), every_ms)
    plan = plan_view(session, definition)
    sources = tuple(source.name for source in plan.sources)
    if str(identifier) in sources:
        raise InvalidRequest(f"the query of view {identifier} reads the view itself: name the tables that it reads")
    key = plan.local.table_key if plan.local.of_branch else plan.local.key
    definition = replace(definition, sources=sources, key=key)
    table_options = session.tables.canonical_options({LOG_ENABLED.key: "true", **options}, "table")
    schema = new_schema(
        fields=[(name, kind, None) for name, kind in plan.columns],
        primary_keys=list(plan.local.table_key),
        options={**table_options, VIEW.key: definition.text},
        comment=comment,
        time_millis=now_ms(),
    )
    check_view_options(schema)
    if not or_replace or not session.exists(identifier):
        return _filled_view(session, identifier, schema)
    old = _droppable_view(session, identifier)
    is_filled = False
    try:
        with replaced_table(session, identifier) as fresh:
            refresh = _filled_view(session, fresh, schema)
            is_filled = True
    except UnsupportedFeature:
        if not is_filled:
            raise
        drop_view(session, identifier, if_exists=False)  # the storage cannot rename; the query has shown that it runs
        return _filled_view(session, identifier, schema)
    forget_view(session.tables, old)
    refresh_view(session, identifier)  # notes the name of the view in its sources
    return refresh


def _filled_view(session: SessionContext, identifier: Identifier, schema: TableSchema) -> Refresh:
    """Creates the table of a view and computes its rows; drops it again if that fails."""
    session.create_table(identifier, schema, if_not_exists=False)
    try:
        return refresh_view(session, identifier)
    except BaseException:
        session.tables.drop_table(identifier, if_exists=True, purge=True)
        raise


def refresh_view(session: SessionContext, identifier: Identifier, rebuild: bool = False) -> Refresh:
    """Brings a view to the newest rows of its sources, and makes a snapshot of it. Raises as ``ViewRefresher``."""
    refresher = ViewRefresher(session, identifier, tempfile.gettempdir())
    try:
        refresh = refresher.refresh(rebuild)
        refresher.end()
        expire_best_effort(session.tables.open(identifier))
        return refresh
    finally:
        refresher.close()


def need_view(session: SessionContext, identifier: Identifier) -> ViewDefinition:
    """The definition of a view. Raises NotFound, InvalidRequest for a table."""
    return ViewDefinition.need(session.tables.open(identifier).schema, str(identifier))


def change_view(session: SessionContext, identifier: Identifier, **changes: object) -> None:
    """Changes fields of the definition of a view. Raises NotFound, InvalidRequest for a table."""
    definition = replace(need_view(session, identifier), **changes)  # type: ignore[arg-type]
    session.tables.alter_table(identifier, [SetOption(VIEW.key, definition.text)])


def drop_view(session: SessionContext, identifier: Identifier, if_exists: bool) -> None:
    """Drops a view, and what its sources know of it.

    Raises NotFound unless ``if_exists``, InvalidRequest for a table and for the source of another view.
    """
    if if_exists and session.tables.load_schema(identifier) is None:
        return
    definition = _droppable_view(session, identifier)
    session.tables.drop_table(identifier, if_exists=False, purge=True)
    forget_view(session.tables, definition)


def _droppable_view(session: SessionContext, identifier: Identifier) -> ViewDefinition:
    """The definition of a view that no other view reads. Raises NotFound, InvalidRequest."""
    definition = need_view(session, identifier)
    reader = next(
        (n for n, other in views_of(session.tables, identifier.catalog) if str(identifier) in other.sources), None
    )
    if reader is not None:
        raise InvalidRequest(f"view {identifier} is a source of view {reader}: drop that one first")
    return definition
