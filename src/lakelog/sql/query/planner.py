"""Prepares a query for Spark: replaces lakelog's tables by views that read only the required data.

The planner edits names and hints in the text instead of regenerating it, so that Spark parses the user's text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from lakelog.catalog.base import Identifier
from lakelog.options.log import CHANGELOG_MODES, NORMALIZE, READ_MODE, STREAMING
from lakelog.options.option import Options
from lakelog.options.scan import READ_CUT, SCAN_METADATA_COLUMNS, SCAN_OPTIONS
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.column_pruning import ColumnUse
from lakelog.sql.query.join_pruning import join_keys
from lakelog.sql.query.lookup.for_system_time import LookupTime, proctime_edits, read_lookup_time
from lakelog.sql.query.lookup.rewrite import LookupJoins, LookupRead
from lakelog.sql.query.metadata_columns import metadata_use
from lakelog.sql.query.metadata_queries import counted_read, limit_of
from lakelog.sql.query.names import check_names
from lakelog.sql.query.predicate_pushdown import pushed_predicate
from lakelog.sql.query.references import Hint, QueryText, Reference, cte_of
from lakelog.sql.query.signed_aggregates import SignedAggregates, keeps_rows_of_keys, signed_aggregates
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.syntax.lexer import Kind, quoted_name
from lakelog.sql.syntax.source_text import Edit, SourceText, edited
from lakelog.sql.syntax.table_changes import TimeTravel, read_time_travel
from lakelog.sql.syntax.token_stream import Name
from lakelog.table.cuts.cut import NEWEST
from lakelog.table.cuts.reading import newest_cut
from lakelog.table.read.time_travel import with_times_in

_FORMATS: Final = frozenset(("parquet", "orc", "json", "csv", "text", "avro", "xml", "binaryfile", "lakelog", "delta"))
"""Formats of files that Spark reads by a name such as parquet.`path`."""


@dataclass(frozen=True)
class _TableRead:
    """A reference to a lakelog table."""

    reference: Reference
    table: Identifier
    schema: TableSchema
    hints: tuple[Hint, ...]
    options: dict[str, str]
    travel: TimeTravel | None = None
    lookup: LookupTime | None = None


def plan_query(
    session: SessionContext,
    source: SourceText,
    strict: bool = True,
    persistent: bool = False,
    deletes: bool = False,
) -> QueryPlan:
    """Plans a query statement.

    With ``strict`` a name that neither lakelog nor Spark knows raises NotFound with a suggestion, otherwise Spark
    resolves it. ``deletes``: the rows update a table with a key, so aggregates over changes have a ``_row_kind``.
    Raises UnsupportedStatement for a hint that does not follow a lakelog table, InvalidOption.
    """
    query = QueryText.read(source)
    reads = _find_reads(session, query, strict and query.tree is not None)
    _check_hints(query, reads)
    if strict and not any(read.lookup for read in reads):  # these may name columns that the join makes
        check_names(query, {id(read.reference.node): read.schema for read in reads})
    reads = _at_one_cut(session, query, reads, persistent)
    needed = _needed_columns(query, reads)
    metadata = metadata_use(query, [read for read in reads if read.lookup is None and "$" not in read.table.table])
    sources: list[Source] = []
    edits: list[Edit] = []
    lookups, signed = [], list[SignedAggregates]()
    lookup_reads = any(read.lookup is not None for read in reads)
    for read, columns in zip(reads, needed, strict=True):
        if read.lookup is not None:
            lookups.append(LookupRead(read.reference, read.table, read.schema, columns, read.options, read.lookup))
            continue
        read, columns = _with_metadata(query, read, columns, metadata.of(read))
        read, signs = _with_signs(query, read, deletes)
        if signs is not None:
            signed.append(signs)
        looks_up = signs is None and lookup_reads and _streams(read) and ROW_KIND_COLUMN not in (columns or ())
        if columns is not None and (signs is not None or looks_up):
            columns = (*columns, ROW_KIND_COLUMN)
        view = session.new_view()
        node = read.reference.node
        condition = None if node is None else pushed_predicate(node, read.schema)
        counted = None if persistent or not _is_of_files(read) else counted_read(query, read.reference, read.schema)
        if counted is not None:
            sources.append(Source(view, read.table, counted.columns, read.options, condition, counts=True))
            edits += counted.edits
        else:
            limit = None if persistent or condition is not None else limit_of(query, read.reference)
            sources.append(Source(view, read.table, columns, read.options, condition, limit=limit))
        edits += _edits(query, read, view)
    sources = _with_joins(query, reads, sources)
    edits += _column_edits(session, query, reads)
    edits += metadata.edits
    if reads:
        edits += _dollar_edits(query, edits)
        edits += proctime_edits(query.tokens)
    for aggregates in signed:
        edits = aggregates.applied(edits)
    joins = LookupJoins(session, query, lookups, edits)
    text = edited(source.script, joins.rewrite(), source.start, source.end)
    syntax_error = query.syntax_error if reads else None
    return QueryPlan(text, tuple(sources), syntax_error, persistent and bool(reads), tuple(joins.lookups))


def _with_metadata(
    query: QueryText, read: _TableRead, columns: tuple[str, ...] | None, added: tuple[str, ...]
) -> tuple[_TableRead, tuple[str, ...] | None]:
    """A read with metadata columns. Raises UnsupportedStatement for a read of a log, whose rows are in no file."""
    if not added:
        return read, columns
    if not _is_of_files(read):
        raise query.source.error(
            read.reference.name.start,
            f"'{added[0]}' is a column of rows in files, and this reads the log: use the hint "
            f"OPTIONS('{READ_MODE.key}' = '{READ_MODE.default}')",
        )
    options = {**read.options, SCAN_METADATA_COLUMNS.key: ",".join(added)}
    return replace(read, options=options), None if columns is None else (*columns, *added)


def _with_signs(query: QueryText, read: _TableRead, deletes: bool) -> tuple[_TableRead, SignedAggregates | None]:
    """A read of a log with all kinds of changes, and the aggregates over it; completes the changes of an upsert log."""
    options = Options({**read.schema.options, **read.options})
    if not _streams(read) or read.reference.changes is not None or options.need(CHANGELOG_MODES) == "append-only":
        return read, None
    aggregates = signed_aggregates(query, read.reference, str(read.table), read.schema.is_keyed, deletes)
    needs_old = deletes and not keeps_rows_of_keys(read.reference, read.schema.primary_keys)
    if read.schema.is_keyed and (aggregates is not None or needs_old):
        read = replace(read, options={NORMALIZE.key: "true", **read.options})
    return read, aggregates


def _streams(read: _TableRead) -> bool:
    """True if a read is a stream of a log."""
    options = Options({**read.schema.options, **read.options})
    return options.need(READ_MODE) == "log" and options.need(STREAMING) and "$" not in read.table.table


def _with_joins(query: QueryText, reads: list[_TableRead], sources: list[Source]) -> list[Source]:
    """The sources with the joins that select their partitions."""
    plain = [read for read in reads if read.lookup is None]
    nodes = {id(r.reference.node): r for r in plain if r.reference.node is not None and _is_of_files(r)}
    views = {id(r.reference.node): s.view for r, s in zip(plain, sources, strict=True)}
    keys = join_keys(query.tree, {position: read.schema for position, read in nodes.items()})
    joined = {
        s.view: tuple((k.column, views[id(k.other)], k.other_column) for k in keys if views[id(k.node)] == s.view)
        for s in sources
    }
    return [replace(s, joined=joined[s.view]) if joined[s.view] else s for s in sources]


def _is_of_files(read: _TableRead) -> bool:
    """Returns whether the rows come from data files, not from a log or a system table."""
    mode = read.options.get(READ_MODE.key, read.schema.options.get(READ_MODE.key, READ_MODE.default))
    return mode == READ_MODE.default and "$" not in read.table.table


def _find_reads(session: SessionContext, query: QueryText, strict: bool) -> list[_TableRead]:
    reads = []
    for reference in query.references():
        identifier = session.find(reference.name)
        schema = None if identifier is None else session.tables.load_schema(identifier)
        if identifier is None or schema is None:
            if strict and identifier is not None and _is_unknown(session, reference.name):
                raise session.no_table(reference.name)
            _refuse_of_spark(session, query, reference)
            continue
        if session.is_hidden(reference.name):
            _refuse_of_spark(session, query, reference)
            continue  # a temporary view of this name takes precedence
        reads.append(_read_of(session, query, reference, identifier, schema))
    return reads


def _refuse_of_spark(session: SessionContext, query: QueryText, reference: Reference) -> None:
    """Raises UnsupportedStatement for a lookup join with a relation of Spark, and for changes of one."""
    at = reference.travel
    if reference.changes is not None:
        if not session.engine.is_spark_relation(reference.name.sql):
            raise session.no_table(reference.name)
        raise query.source.error(
            reference.name.start,
            f"'{reference.name}' is a Spark table: changes are available for tables of this lake only",
        )
    if at is not None and read_lookup_time(query.source, query.tokens, at) is not None:
        raise query.source.error(
            reference.name.start,
            f"'{reference.name}' is a Spark table: only tables of this lake with a primary key can be looked up",
        )


def _read_of(
    session: SessionContext, query: QueryText, reference: Reference, identifier: Identifier, schema: TableSchema
) -> _TableRead:
    """The read with its options; time travel or a range of changes may have other columns than the current table."""
    at = reference.travel
    lookup = None if at is None else read_lookup_time(query.source, query.tokens, at)
    if lookup is not None:
        reference = replace(reference, ends=(reference.name.end, *query.alias_ends(lookup.end)))
    hints = _hints_of(query, reference)
    travel = None
    if at is not None and lookup is None:
        travel = read_time_travel(query.source, query.tokens, at, session.engine.millis_of)
    values = {key: value for hint in hints for key, value in hint.options.items()} | (travel.options if travel else {})
    if reference.changes is not None:
        if twice := [option.key for option in SCAN_OPTIONS.options if option.key in values]:
            raise query.source.error(
                reference.name.start, f"table_changes selects the changes to read: remove '{min(twice)}'"
            )
        values |= reference.changes.options(query.source, lambda: _newest_id(session, identifier), session.engine.zone)
    options = session.tables.canonical_options(values, "read")
    if any(option.key in options for option in SCAN_OPTIONS.options):
        options = with_times_in(options, session.engine.zone)
    if any(option.key in options for option in SCAN_OPTIONS.options):
        schema = session.tables.load_schema(identifier, options) or schema
    return _TableRead(reference, identifier, schema, hints, options, travel, lookup)


def _at_one_cut(
    session: SessionContext, query: QueryText, reads: list[_TableRead], persistent: bool
) -> list[_TableRead]:
    """The reads, those of the newest cut by its name: all tables of the statement have it.

    Raises InvalidOption, NotFound if the tables have no cut in common.
    """
    asking = [read for read in reads if read.options.get(READ_CUT.key, "").strip().lower() == NEWEST]
    for read in (read for read in reads if READ_CUT.key in read.options):
        if Options(read.options).get_typed(READ_MODE) == "log":
            raise query.source.error(
                read.reference.name.start, f"'{READ_CUT.key}' reads files: remove '{READ_MODE.key}' = 'log'"
            )
    if not asking:
        return reads
    if persistent:
        raise query.source.error(
            asking[0].reference.name.start,
            f"a view would keep the cut that is the newest now: write the name of a cut, or '{READ_CUT.key}' in the "
            "queries of the view's tables",
        )
    cut = newest_cut([session.tables.open(read.table).store for read in asking])
    at_cut = {id(read): {**read.options, READ_CUT.key: cut.name} for read in asking}
    return [
        replace(read, options=options, schema=session.tables.load_schema(read.table, options) or read.schema)
        if (options := at_cut.get(id(read))) is not None
        else read
        for read in reads
    ]


def _newest_id(session: SessionContext, identifier: Identifier) -> int:
    newest = session.tables.open(identifier).store.latest_snapshot()
    return 0 if newest is None else newest.id


def _is_unknown(session: SessionContext, name: Name) -> bool:
    """Returns whether no relation has this name; parquet.`/path` is one for Spark."""
    is_path = len(name.parts) == 2 and (name.parts[0].lower() in _FORMATS or bool({"/", ":"} & set(name.parts[1])))
    return not is_path and not session.engine.is_spark_relation(name.sql)


def _hints_of(query: QueryText, reference: Reference) -> tuple[Hint, ...]:
    """The hints after the name, its alias or another hint of it, with only comments between."""
    positions, hints = list(reference.ends), []
    token_starts = [t.start for t in query.tokens]
    for hint in query.hints:
        if any(
            position <= hint.start and not _any_between(token_starts, position, hint.start) for position in positions
        ):
            hints.append(hint)
    return tuple(hints)


def _any_between(starts: Iterable[int], low: int, high: int) -> bool:
    return any(low <= start < high for start in starts)


def _check_hints(query: QueryText, reads: list[_TableRead]) -> None:
    used = {hint.start for read in reads for hint in read.hints}
    for hint in query.hints:
        if hint.start not in used:
            raise query.source.error(
                hint.start,
                "a hint OPTIONS(…) must directly follow the name or alias of a lakelog table, as in FROM db.t /*+ "
                "OPTIONS('read.mode'='log') */; here it follows something else",
            )
    for read in reads:
        keys: set[str] = set()
        for hint in read.hints:
            if twice := keys & set(hint.options):
                raise query.source.error(hint.start, f"option '{sorted(twice)[0]}' is given twice")
            keys |= set(hint.options)


def _needed_columns(query: QueryText, reads: list[_TableRead]) -> list[tuple[str, ...] | None]:
    """Per read the columns in the table's order, None for all; the cheapest column if the query needs none."""
    if query.tree is None:
        return [None] * len(reads)
    names = {id(r.reference.node): frozenset(f.lower() for f in _readable(r.schema)) for r in reads}
    use = ColumnUse(query.tree, names, cte_of)
    words = query.words_outside_tree()
    out: list[tuple[str, ...] | None] = []
    for read in reads:
        needed = None if read.reference.node is None or "identifier" in words else use.needed(read.reference.node)
        if needed is None:
            out.append(None)
            continue
        # A column may have the name of a function or a keyword, which the tree does not represent as a name.
        kept = tuple(f for f in _readable(read.schema) if f.lower() in needed or f.lower() in words)
        out.append(kept or (_cheapest_column(read.schema),))
    return out


def _readable(schema: TableSchema) -> tuple[str, ...]:
    names = tuple(schema.field_names)
    return names if ROW_KIND_COLUMN in names else (*names, ROW_KIND_COLUMN)


def _cheapest_column(schema: TableSchema) -> str:
    """The column to read if only the number of rows is needed: a key column, which a merge reads anyway."""
    if schema.primary_keys:
        return schema.primary_keys[0]
    small = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "DATE", "FLOAT", "BIGINT", "DOUBLE")
    ranks = {root: rank for rank, root in enumerate(small)}
    return min(schema.fields, key=lambda f: ranks.get(getattr(f.type, "root", ""), len(small))).name


def _edits(query: QueryText, read: _TableRead, view: str) -> list[Edit]:
    reference = read.reference
    name, at = reference.name, reference.alias_at
    alias = "" if at is None else " AS `" + name.parts[-1].replace("`", "``") + "`"
    edits = [Edit(name.start, name.end, view + (alias if at == name.end else ""))]
    if at is not None and at != name.end:
        edits.append(Edit(at, at, alias))
    if read.travel is not None:
        edits.append(Edit(read.travel.start, read.travel.end, ""))
    script = query.source.script
    for hint in read.hints:
        # Words that only the hint separated stay separated.
        edits.append(Edit(hint.start, hint.end, "" if script[hint.start - 1].isspace() else " "))
    return edits


def _column_edits(session: SessionContext, query: QueryText, reads: list[_TableRead]) -> list[Edit]:
    """Removes catalog and database from columns like ``db.t.id``, because the view has only the alias ``t``."""
    if query.tree is None:
        return []
    reads_here = [r.table for r in reads if r.reference.alias_at is not None]
    names: set[tuple[str, str, str | None]] = {
        (t.database.lower(), t.table.lower(), catalog) for t in reads_here for catalog in (t.catalog, None)
    }
    edits = []
    for column in query.tree.find_all(exp.Column):
        parts = [p.name.lower() for p in column.parts]
        for at in range(1, min(3, len(parts) - 1)):
            catalog = session.catalogs.find(parts[0]) if at == 2 else None
            if (parts[at - 1], parts[at], catalog) in names and (at == 1 or catalog is not None):
                start, table = query.start_of(column.parts[0]), query.start_of(column.parts[at])
                if start is not None and table is not None:
                    edits.append(Edit(start, table, ""))
                break
    return edits


def _dollar_edits(query: QueryText, edits: list[Edit]) -> list[Edit]:
    """Quotes remaining names such as ``t$snapshots``, because Spark does not accept ``$`` in a plain name."""
    return [
        Edit(token.start, token.end, quoted_name(token.text))
        for token in query.tokens
        if token.kind is Kind.WORD and "$" in token.text
        if not any(edit.start <= token.start < edit.end for edit in edits)
    ]
