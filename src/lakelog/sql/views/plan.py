"""The plan of a materialized view: its columns and key, and where and how its rows are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from lakelog.errors import InvalidRequest, LakelogError, UnsupportedFeature
from lakelog.options.scan import SCAN_SNAPSHOT
from lakelog.paimon.types.arrow import arrow_schema, type_from_arrow
from lakelog.paimon.types.types import STRING, AtomicType, DataType
from lakelog.sql.embedded.queries import text_of, translated
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.views.changes import restricted_query, touched_queries, touches_keys
from lakelog.sql.views.keys import branches_of, row_key_of, source_field
from lakelog.sql.views.query import ViewQuery, ViewSource, read_view_query
from lakelog.sql.views.sums import by_changes
from lakelog.state.spark_functions import NeedsSpark
from lakelog.table.views.definition import ROW_KEY, ViewDefinition
from lakelog.table.views.local_plan import ADDED, BRANCH, REMOVED, LocalPlan, LocalSource, Touched
from lakelog.table.views.local_state import EmptySources

_FLOATS = ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class ViewPlan:
    """How a view is computed.

    ``columns`` are those of its table. ``needs_spark`` says why Spark computes it, "" if this process does.
    ``recomputes`` says why a change computes all rows again, "" if it computes those that it touches.
    ``source_schemas`` are the Arrow schemas of the columns that the query uses.
    """

    local: LocalPlan
    columns: tuple[tuple[str, DataType], ...]
    sources: tuple[ViewSource, ...]
    source_schemas: tuple[pa.Schema, ...]
    needs_spark: str
    recomputes: str

    @property
    def cost(self) -> str:
        """What a change of a source makes a refresh compute."""
        if self.recomputes:
            return f"all rows, because {self.recomputes}"
        by = self.local.by_changes
        if by is None:
            return "the rows whose key it touches"
        return "the changed rows alone" if by.rows is None else "the sums of its groups, from the changed rows alone"

    @property
    def changes(self) -> Sequence[tuple[int, str, str]]:
        """(Source, side of its changes, query over them), by which a refresh finds what they change."""
        by = self.local.by_changes
        if by is not None:
            return [(0, REMOVED, by.removed), (0, ADDED, by.added)]
        return [(touched.source, touched.side, touched.query) for touched in self.local.touched]

    @property
    def schema_ids(self) -> Mapping[str, int]:
        """Source → the schema that the plan was made for."""
        return {source.name: source.schema.id for source in self.sources}


def view_session(session: SessionContext, definition: ViewDefinition) -> SessionContext:
    """A session in which the names of a view's query mean what they meant when it was created."""
    there = SessionContext(session.tables, session.engine, session.catalogs.first)
    there.current_catalog, there.database = definition.catalog, definition.database
    return there


def plan_view(session: SessionContext, definition: ViewDefinition, only_spark: str = "") -> ViewPlan:
    """The plan of a definition, with the newest schemas of its sources; for Spark if ``only_spark`` says why.

    Raises UnsupportedFeature for a query without a key or outside of the scope, NotFound for a missing source,
    NotInstalled without DuckDB.
    """
    here = view_session(session, definition)
    query = read_view_query(here, definition.query)
    key = row_key_of(query)
    sources = tuple(
        LocalSource(source.name, used, _exact_key(source))
        for source, used in zip(query.sources, query.used, strict=True)
    )
    schemas = tuple(
        arrow_schema([s.schema.field(name) for name in used]) for s, used in zip(query.sources, query.used, strict=True)
    )
    names = tuple(query.columns[at] for at in key.positions)
    local = LocalPlan(sources, query.columns, names, key.is_nullable, key.of_branch, definition.zone)
    needs_spark, recomputes = "", touches_keys(query, key.positions)
    try:
        if only_spark:
            raise NeedsSpark(only_spark)
        local, kinds = _computed_here(query, local, schemas, key.positions, recomputes)
    except NeedsSpark as why:
        if key.of_branch:
            raise UnsupportedFeature(f"UNION ALL in a materialized view, with {why}: make a view of each part") from why
        needs_spark, recomputes = str(why), "Spark computes the view"
        kinds = _columns_in_spark(here, definition)
    _check_key(names, dict(zip(query.columns, kinds, strict=True)))
    primary = () if key.is_nullable else names
    columns = tuple((n, k.with_nullable(n not in primary)) for n, k in zip(query.columns, kinds, strict=True))
    if key.is_nullable:
        columns = (*columns, (ROW_KEY, STRING.with_nullable(False)))
    recomputes = recomputes if local.by_changes is None else ""
    return ViewPlan(local, columns, query.sources, schemas, needs_spark, recomputes)


def spark_plan(session: SessionContext, definition: ViewDefinition, snapshots: Mapping[str, int]) -> QueryPlan:
    """The plan of the query for Spark, which reads each source at a snapshot, by its name; 0 is none yet."""
    plan = plan_query(view_session(session, definition), _text(definition.query))
    sources = tuple(
        replace(source, options={**source.options, **_at(snapshots[str(source.table)])}, joined=())
        for source in plan.sources
    )
    return replace(plan, sources=sources)


def _columns_in_spark(session: SessionContext, definition: ViewDefinition) -> list[DataType]:
    """The types of the columns in Spark. Raises InvalidRequest if Spark refuses the query."""
    try:
        return [kind for _, kind in session.engine.columns_of(plan_query(session, _text(definition.query)))]
    except LakelogError:
        raise
    except Exception as refused:  # Spark has many
        said = str(refused).partition("\n")[0]
        raise InvalidRequest(f"Spark refuses the query of the view: {said}") from refused


def _at(snapshot: int) -> Mapping[str, str]:
    """The option that reads a snapshot; none for a table without one."""
    return {SCAN_SNAPSHOT.key: str(snapshot)} if snapshot else {}


def _text(query: str) -> SourceText:
    return SourceText(query, 0, len(query))


def _computed_here(
    query: ViewQuery, local: LocalPlan, schemas: tuple[pa.Schema, ...], key: tuple[int, ...], recomputes: str
) -> tuple[LocalPlan, list[DataType]]:
    """The statements for DuckDB, and the types of the columns. Raises NeedsSpark."""
    tree = query.tree
    if local.of_branch:
        if any(name.lower() == BRANCH for name in query.columns):
            raise UnsupportedFeature(f"a column of a UNION ALL in a materialized view cannot be called {BRANCH}")
        tree = tree.copy()
        for number, branch in enumerate(branches_of(tree)):
            branch.select(exp.alias_(exp.Literal.number(number), BRANCH), copy=False)
    there, sources = translated(tree, query.relations)[0], EmptySources(schemas, local.zone)
    text = text_of(there)
    try:
        result = sources.schema_of(text)
        kinds = [_kind(query, at, result.field(at).type) for at in range(len(query.columns))]
        local = replace(local, query=text, by_changes=by_changes(query, there, sources.types_of))
    except UnsupportedFeature as refused:
        raise NeedsSpark(str(refused)) from refused
    if recomputes or local.by_changes is not None:
        return local, kinds
    touched = tuple(Touched(at, side, _local_query(query, tree)) for at, side, tree in touched_queries(query, key))
    restricted = _local_query(query, restricted_query(query, key, local.key))
    return replace(local, restricted=restricted, touched=touched), kinds


def _local_query(query: ViewQuery, tree: exp.Query) -> str:
    """The text of a query over the sources for DuckDB. Raises NeedsSpark."""
    return text_of(translated(tree, query.relations)[0])


def _kind(query: ViewQuery, at: int, computed: pa.DataType) -> DataType:
    """The type of a column: that of the source's column if it is one."""
    field = source_field(query, query.tree, at)
    return type_from_arrow(computed) if field is None else field.type


def _exact_key(source: ViewSource) -> tuple[str, ...]:
    """The primary key by which a source finds its rows; () if two of its values may be equal, as 0.0 and -0.0."""
    keys = source.schema.primary_keys
    roots = [getattr(source.schema.field(name).type, "root", "") for name in keys]
    return () if any(root in _FLOATS for root in roots) else tuple(keys)


def _check_key(names: tuple[str, ...], kinds: Mapping[str, DataType]) -> None:
    for name in names:
        kind = kinds[name]
        if not isinstance(kind, AtomicType) or kind.root in ("VARIANT", "BLOB"):
            raise UnsupportedFeature(f"column '{name}' of type {kind} cannot be in the key of a materialized view")
