"""The query of a materialized view: its sources and its columns, with all names resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataType, type_text
from lakelog.sql.embedded.queries import AnyColumns, Relations
from lakelog.sql.embedded.types import Kind, kind_of
from lakelog.sql.query.references import QueryText, cte_of
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.syntax.source_text import SourceText
from lakelog.table.views.local_plan import ADDED, REMOVED, TOUCHED, changed_table, source_table

_RANDOM = frozenset(
    ("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
     "spark_partition_id", "input_file_name", "current_timestamp", "now", "current_date", "curdate", "localtimestamp",
     "current_time", "current_user", "user", "session_user", "current_database", "current_catalog",
     "current_timezone", "unix_timestamp", "current_schema", "input_file_block_start", "input_file_block_length")
)  # fmt: skip
"""Functions whose value depends on more than the row."""
_MOVING = ("now", "today", "tomorrow", "yesterday")
"""Texts that are times of the moment."""
_NUMBERED: Final = re.compile(r"(?i:source|added|removed)_\d+")
"""Names of the tables that a query reads here."""
_TYPES = {
    "VARCHAR": "TEXT", "CHAR": "TEXT", "TIMESTAMP_LTZ": "TIMESTAMPTZ", "TIMESTAMP": "TIMESTAMPNTZ",
    "VARBINARY": "BINARY", "TIME": "TIME",
}  # fmt: skip


@dataclass(frozen=True)
class ViewSource:
    """A table of the lake in the query of a view."""

    identifier: Identifier
    schema: TableSchema

    @property
    def name(self) -> str:
        return str(self.identifier)


@dataclass(frozen=True)
class ViewQuery:
    """A query whose tables are ``source_0``, … and whose columns all name their table.

    ``columns`` are its output columns in the user's spelling. ``keys`` are for each source the columns of its primary
    key, ``used`` those that the query uses, both in the table's spelling.
    """

    tree: exp.Query
    sources: tuple[ViewSource, ...]
    columns: tuple[str, ...]
    used: tuple[tuple[str, ...], ...]

    @property
    def relations(self) -> Relations:
        """The types of the columns of ``source_0``, …, and of the tables of their changes."""
        by_table: dict[str, Mapping[str, Kind]] = {TOUCHED: AnyColumns()}
        for at, source in enumerate(self.sources):
            columns = {f.name.lower(): kind_of(f.type) for f in source.schema.fields}
            names = (source_table(at), *(changed_table(at, side) for side in (REMOVED, ADDED)))
            by_table |= dict.fromkeys(names, columns)
        return by_table

    def source_of(self, table: exp.Table) -> ViewSource | None:
        """The source that a table of the tree names; None for a common table expression."""
        number = table.name.removeprefix("source_")
        return self.sources[int(number)] if number.isdigit() and cte_of(table) is None else None

    def number_of(self, table: exp.Table) -> int | None:
        """The number of the source that a table of the tree names."""
        source = self.source_of(table)
        return None if source is None else self.sources.index(source)


def read_view_query(session: SessionContext, text: str) -> ViewQuery:
    """Reads the query of a view.

    Raises UnsupportedFeature, which names what a view cannot have, NotFound for an unknown table, InvalidRequest.
    """
    query = QueryText.read(SourceText(text, 0, len(text)))
    if query.tree is None:
        raise UnsupportedFeature(query.syntax_error or "a materialized view needs a query that reads tables")
    if query.hints:
        raise UnsupportedFeature("the query of a materialized view cannot have hints: it reads all rows of its sources")
    copy = query.tree.copy()
    if not isinstance(copy, exp.Query):
        raise UnsupportedFeature("a materialized view needs a query")
    tree: exp.Query = copy
    _check_functions(tree)
    sources = _with_sources(session, query, tree)
    schema = source_types(sources)
    spelled = {name.lower(): name for name in (part.alias_or_name for part in tree.selects) if name and name != "*"}
    try:
        resolved = qualify(tree, schema=schema, dialect="spark", quote_identifiers=False)
    except SqlglotError as why:
        raise InvalidRequest(f"the query of the view cannot be resolved: {str(why).partition(chr(10))[0]}") from why
    assert isinstance(resolved, exp.Query)
    tree = resolved
    _spell_columns(tree, sources)
    columns = _columns(tree, spelled, sources)
    return ViewQuery(tree, sources, columns, tuple(_used(tree, at, s.schema) for at, s in enumerate(sources)))


def _with_sources(session: SessionContext, query: QueryText, tree: exp.Query) -> tuple[ViewSource, ...]:
    """Names the tables of the tree ``source_0``, …; returns the sources."""
    for common in tree.find_all(exp.CTE):
        if _NUMBERED.fullmatch(common.alias):
            raise UnsupportedFeature(
                f"a common table expression of a materialized view cannot be called {common.alias}, as lakelog calls a "
                "source: give it another name"
            )
    sources: dict[Identifier, ViewSource] = {}
    names = {r.name.start: r.name for r in query.references()}
    if any(reference.travel is not None or reference.changes is not None for reference in query.references()):
        raise UnsupportedFeature(
            "a materialized view follows its sources: its query can have neither a point in time nor table_changes"
        )
    for table in list(tree.find_all(exp.Table)):
        if cte_of(table) is not None:
            continue
        start = query.start_of(table.parts[0])
        name = None if start is None else names.get(start)
        if name is None or not isinstance(table.this, exp.Identifier):
            raise UnsupportedFeature("a materialized view reads tables and views of this lake only, no table functions")
        identifier = session.resolve(name)
        schema = None if session.is_hidden(name) else session.tables.load_schema(identifier)
        if schema is None or "$" in identifier.table:
            if session.is_hidden(name) or "$" in identifier.table or session.engine.is_spark_relation(name.sql):
                raise UnsupportedFeature(
                    f"'{name}' is no table of this lake: a materialized view reads tables and other materialized views"
                )
            raise session.no_table(name)
        source = sources.setdefault(identifier, ViewSource(identifier, schema))
        number = list(sources.values()).index(source)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name.parts[-1].lower(), quoted=True)))
        table.set("this", exp.to_identifier(source_table(number)))
        table.set("db", None)
        table.set("catalog", None)
    for column in tree.find_all(exp.Column):  # db.t.id: the relation is t
        column.set("db", None)
        column.set("catalog", None)
    return tuple(sources.values())


def _check_functions(tree: exp.Expr) -> None:
    """Raises UnsupportedFeature for what no refresh can repeat, or no key can identify."""
    for node in tree.walk():
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name() if isinstance(node, exp.Func) else ""
        if name.lower() in _RANDOM:
            raise UnsupportedFeature(
                f"{name.lower()}() of a materialized view has another value at each refresh: leave it out"
            )
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.name.lower() in _MOVING:
            raise UnsupportedFeature(
                f"'{node.this.name}' as a time in a materialized view has another value at each refresh: leave it out"
            )
        if isinstance(node, exp.Limit | exp.Offset | exp.Fetch):
            raise UnsupportedFeature("LIMIT in a materialized view: use row_number() with a unique order in a subquery")
        if isinstance(node, exp.Lateral | exp.Unnest | exp.Pivot | exp.TableSample):
            raise UnsupportedFeature(
                f"{node.key.upper()} in a materialized view: its rows have no key by which a refresh finds them"
            )


def _columns(tree: exp.Query, spelled: Mapping[str, str], sources: tuple[ViewSource, ...]) -> tuple[str, ...]:
    known = {f.name.lower(): f.name for source in sources for f in source.schema.fields}
    columns = list[str]()
    for part in tree.selects:
        name = part.alias_or_name
        if not name or name.startswith("_col_"):
            raise InvalidRequest(
                f"column {len(columns) + 1} of the view, {part.sql(dialect='spark')}, needs a name: AS …"
            )
        columns.append(spelled.get(name.lower()) or known.get(name.lower()) or name)
    folded = [name.lower() for name in columns]
    if twice := next((name for name in folded if folded.count(name) > 1), None):
        raise InvalidRequest(f"two columns of the view are called '{twice}': give one of them another name by AS")
    return tuple(columns)


def _spell_columns(tree: exp.Query, sources: tuple[ViewSource, ...]) -> None:
    """Gives columns of sources the table's spelling, where a letter has a case that DuckDB does not fold."""
    for number, source in enumerate(sources):
        spellings = {name.lower(): name for name in source.schema.field_names if not name.isascii()}
        aliases = {
            t.alias_or_name for t in tree.find_all(exp.Table) if t.name == source_table(number) and not cte_of(t)
        }
        for column in tree.find_all(exp.Column) if spellings else ():
            if column.table in aliases and column.name.lower() in spellings:
                column.set("this", exp.to_identifier(spellings[column.name.lower()], quoted=True))


def _used(tree: exp.Query, number: int, schema: TableSchema) -> tuple[str, ...]:
    """The columns of a source that the query uses, and those of its key; one column at least."""
    names = {
        column.name.lower()
        for table in tree.find_all(exp.Table)
        if table.name == source_table(number) and cte_of(table) is None
        for column in tree.find_all(exp.Column)
        if column.table == table.alias_or_name
    }
    keys = {name.lower() for name in schema.primary_keys}
    used = tuple(name for name in schema.field_names if name.lower() in names | keys)
    return used or (schema.field_names[0],)


def source_types(sources: tuple[ViewSource, ...]) -> dict[str, object]:
    """``source_0`` … and the tables of their changes → column → its type for sqlglot."""
    out: dict[str, object] = {}
    for at, source in enumerate(sources):
        columns = {f.name: _type_of(f.type) for f in source.schema.fields}
        out |= dict.fromkeys((source_table(at), *(changed_table(at, side) for side in (REMOVED, ADDED))), columns)
    return out


def _type_of(kind: DataType) -> exp.DataType:
    if not isinstance(kind, AtomicType) or kind.root == "BLOB":
        return exp.DataType.build("UNKNOWN")
    return exp.DataType.build(_TYPES.get(kind.root) or type_text(kind.with_nullable(True)))
