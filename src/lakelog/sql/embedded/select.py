"""Queries in this process: the text of a plan in the words of DuckDB, over the reads of its tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.qualify import qualify

from lakelog.errors import InvalidRequest
from lakelog.options.catalog import SQL_LOCAL_SIZE
from lakelog.paimon.types.arrow import type_from_arrow
from lakelog.paimon.types.types import DataType
from lakelog.sql.embedded.database import EmbeddedDatabase
from lakelog.sql.embedded.queries import Relations, text_of, translated
from lakelog.sql.embedded.relations import Relation, relation_of
from lakelog.sql.embedded.types import NULL, STRING, Kind, arrow_type, sqlglot_type
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.sql.syntax.source_text import point_at
from lakelog.state.embedded_sql import INTERRUPTED, duckdb_module, quoted
from lakelog.state.spark_functions import NeedsSpark, failure_of

_WITHOUT_PARENTHESES: Final = {"current_user", "user", "session_user", "current_time", "localtimestamp", "grouping__id"}
"""Functions of Spark that are written as names."""
_IN_BRACKETS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And,
    exp.Or, exp.Not, exp.Is, exp.In, exp.NullSafeEQ,
)  # fmt: skip
_BATCH_ROWS: Final = 65_536
"""Rows of a batch of a result whose size is limited."""


@dataclass(frozen=True)
class LocalSelect:
    """A query that this process runs.

    ``text`` is in the words of DuckDB, with decimals of 64 bits where they may be enough. ``names`` and ``kinds`` are
    of its columns. ``relations`` are the reads of tables. ``tree`` is the query with all names resolved, and ``types``
    are those of the columns of its tables.
    """

    text: str
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    relations: tuple[Relation, ...]
    tree: exp.Query
    types: Relations

    @property
    def size(self) -> int:
        """Bytes of the data files that the query reads."""
        return sum(relation.size for relation in self.relations)

    def columns(self, allow_null: bool) -> list[tuple[str, DataType]]:
        """(name, type) of the columns. Raises NeedsSpark for values of a nested type, and for NULL alone."""
        answer = []
        for name, kind in zip(self.names, self.kinds, strict=True):
            type_ = arrow_type(STRING if kind == NULL and allow_null else kind)
            if type_ is None or kind == NULL and not allow_null:
                raise NeedsSpark(f"the type of column '{name}'")
            answer.append((name, type_from_arrow(type_)))
        return answer

    def explained(self, database: EmbeddedDatabase) -> str:
        """The engine and why, what it reads, and DuckDB's plan."""
        reads = [f"  {relation.explained}" for relation in self.relations]
        plan = self._run(database, f"EXPLAIN {self.text}").column(1)[0].as_py()
        why = "DuckDB in this process: each part of the query has Spark's values and types there, and its files have "
        why += f"{self.size:,} bytes"
        return "\n".join(["== Engine ==", why, "", "== Reads ==", *reads, "", "== DuckDB ==", plan])

    def rows(self, database: EmbeddedDatabase, most: int | None = None) -> pa.Table:
        """The rows, with Spark's types.

        Raises InvalidRequest for an error of a value, NeedsSpark for a value that only Spark computes and for a result
        of more than ``most`` bytes, and the errors of the reads.
        """
        try:
            answer = self._run(database, self.text, most)
        except InvalidRequest:  # a decimal may have been too long
            answer = self._run(database, self.long_text, most)
        columns = [_typed(column, kind) for column, kind in zip(answer.columns, self.kinds, strict=True)]
        return pa.Table.from_arrays(columns, names=list(self.names))

    @property
    def long_text(self) -> str:
        """The text with decimals of 128 bits, which hold every value of their type."""
        return text_of(translated(self.tree, self.types)[0])

    def schema_of(self, rows: pa.Table) -> pa.Schema:
        """The names and Spark's types of the columns of a result of DuckDB."""
        types = [arrow_type(kind) or there for kind, there in zip(self.kinds, rows.schema.types, strict=True)]
        return pa.schema(list(zip(self.names, types, strict=True)))

    def opened(self, database: EmbeddedDatabase) -> Any:
        """A connection to the database with the reads of this query; the caller closes it."""
        db = database.cursor({relation.directory for relation in self.relations if relation.directory})
        try:
            for relation in self.relations:
                for name, stream in relation.streams.items():
                    db.register(name, stream)
                db.execute(f"CREATE TEMP VIEW {quoted(relation.name)} AS {relation.select}")
        except BaseException:
            db.close()
            raise
        return db

    def _run(self, database: EmbeddedDatabase, text: str, most: int | None = None) -> pa.Table:
        with contextlib.closing(self.opened(database)) as db, raised(self):
            result = db.sql(text)
            rows: pa.Table = result.to_arrow_table() if most is None else _fetched_at_most(result, most)
            return rows


def check_size(size: int, most: int) -> None:
    """Raises NeedsSpark for data files of more than ``most`` bytes."""
    if size > most:
        raise NeedsSpark(f"a read of {size:,} bytes, more than '{SQL_LOCAL_SIZE.key}' = {most:,},")


def local_select(plan: QueryPlan, tables: CatalogTables) -> LocalSelect:
    """Prepares a query. Raises NeedsSpark, which says why, InvalidRequest for a name that no relation has."""
    if plan.lookups:
        raise NeedsSpark("a lookup join")
    if plan.persistent:
        raise NeedsSpark("a view")
    tree = _parsed(plan)
    relations = []
    for source in plan.sources:
        table = tables.open(source.table).with_hints(source.options)
        if table.streams_log:
            raise NeedsSpark("a streaming read of the log")
        relations.append(relation_of(source, table))
    kinds: dict[str, Mapping[str, Kind]] = {relation.name.lower(): relation.kinds for relation in relations}
    spelled = {f.name.lower(): f.name for relation in relations for f in relation.fields}
    labels = _with_labels(tree)
    tree = _resolved(tree, kinds)
    there, answer = translated(tree, kinds, short_decimals=True)
    names = (part.alias_or_name.lower() for part in tree.selects)
    return LocalSelect(
        text_of(there),
        tuple(labels.get(name) or spelled.get(name) or name for name in names),
        tuple(answer),
        tuple(relations),
        tree,
        kinds,
    )


def _parsed(plan: QueryPlan) -> exp.Query:
    """The tree of a plan. Raises NeedsSpark for other statements, and for text that only Spark can parse."""
    try:
        tree = sqlglot.parse_one(plan.text, dialect="spark")
    except (SqlglotError, RecursionError) as failed:
        fault = plan.syntax_error or point_at(
            plan.text, _place_of(plan.text, failed), "this query cannot be parsed from here"
        )
        raise NeedsSpark("a text that cannot be parsed here", fault) from failed
    if not isinstance(tree, exp.Query):
        raise NeedsSpark(f"{tree.key.upper()}")
    return tree


def _place_of(text: str, failed: Exception) -> int:
    """The position at which a text cannot be parsed."""
    problem = failed.errors[0] if isinstance(failed, ParseError) and failed.errors else {}
    if not problem.get("line"):
        return 0
    before = sum(len(line) + 1 for line in text.split("\n")[: int(problem["line"]) - 1])
    return max(before + int(problem["col"]) - len(problem.get("highlight") or ""), 0)


def _with_labels(tree: exp.Query) -> dict[str, str]:
    """Gives the columns of the result without a name Spark's; returns names in lower case → as they are written."""
    first: exp.Expr = tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    labels: dict[str, str] = {}
    for part in list(first.selects) if isinstance(first, exp.Select) else []:
        if part.is_star:
            continue
        name = part.alias or label_of(part)
        labels.setdefault(name.lower(), name)
        if not part.alias and not isinstance(part, exp.Column):
            part.replace(exp.alias_(part.copy(), name, quoted=True))
    return labels


def _resolved(tree: exp.Query, kinds: Relations) -> exp.Query:
    schema: dict[str, object] = {
        name: {c: sqlglot_type(kind) for c, kind in columns.items()} for name, columns in kinds.items()
    }
    may_have_others = _may_have_other_names(tree)
    try:
        answer = qualify(tree, schema=schema, dialect="spark", quote_identifiers=False)
    except SqlglotError as why:
        fault = f"the query cannot be resolved: {str(why).partition(chr(10))[0]}"
        if may_have_others:
            raise NeedsSpark("a name that cannot be resolved here", fault) from why
        raise InvalidRequest(fault) from why
    assert isinstance(answer, exp.Query)
    return answer


def _may_have_other_names(tree: exp.Query) -> bool:
    """Whether Spark may know a name that the relations do not have: one that Spark itself has given, or a function."""
    if any(tree.find_all(exp.Lateral, exp.Unnest, exp.Values, exp.Pivot)):
        return True
    if any(not isinstance(table.this, exp.Identifier) for table in tree.find_all(exp.Table)):
        return True  # a function of rows
    if any(column.name.lower() in _WITHOUT_PARENTHESES for column in tree.find_all(exp.Column)):
        return True
    inner = (part for select in tree.find_all(exp.Select) if select is not tree for part in select.selects)
    return any(not isinstance(part, exp.Alias | exp.Column | exp.Star) for part in inner)


@contextlib.contextmanager
def raised(select: LocalSelect) -> Iterator[None]:
    """Context that raises lakelog's errors for those of DuckDB: of the reads, of a value, KeyboardInterrupt."""
    try:
        yield
    except RuntimeError as stopped:
        _raise_read_error(select)
        if INTERRUPTED not in str(stopped):
            raise
        raise KeyboardInterrupt from stopped
    except duckdb_module().Error as failed:
        _raise_read_error(select)
        raise failure_of("the query failed", failed) from failed


def _fetched_at_most(result: Any, most: int) -> pa.Table:
    """The rows of a result of DuckDB. Raises NeedsSpark as soon as they have more than ``most`` bytes."""
    reader, batches, size = result.to_arrow_reader(_BATCH_ROWS), [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > most:
            raise NeedsSpark(f"a result of more than '{SQL_LOCAL_SIZE.key}' = {most:,} bytes")
    return pa.Table.from_batches(batches, reader.schema)


def _raise_read_error(select: LocalSelect) -> None:
    for stream in (stream for relation in select.relations for stream in relation.streams.values()):
        if stream.error is not None:
            raise stream.error


def _typed(column: pa.ChunkedArray, kind: Kind) -> pa.ChunkedArray:
    goal = arrow_type(kind)
    return column if goal is None or column.type == goal else column.cast(goal)


def label_of(node: exp.Expr) -> str:
    """The name that Spark gives to a column without an alias, such as ``count(1)`` and ``(id + 1)``."""
    while isinstance(node, exp.Paren | exp.Cast) and not (isinstance(node, exp.Cast) and _is_typed_literal(node)):
        inner = node.this
        if isinstance(node, exp.Cast) and not isinstance(inner, exp.Column | exp.Paren | exp.Cast):
            break
        node = inner
    if isinstance(node, exp.Column | exp.Dot):
        return node.name
    if isinstance(node, exp.Literal):
        return node.name
    if isinstance(node, exp.Subquery):
        return "scalarsubquery()"
    text: str = _spelled(exp.Paren(this=node.copy())).this.sql(dialect="spark", normalize_functions="lower")
    return text


def _is_typed_literal(node: exp.Cast) -> bool:
    return isinstance(node.this, exp.Literal) and node.this.is_string


def _spelled(root: exp.Expr) -> exp.Expr:
    """Replaces the parts of an expression by what Spark shows of them."""
    for node in list(root.walk(bfs=False)):
        if isinstance(node, exp.Column):
            node.replace(exp.to_identifier(node.name))
        elif isinstance(node, exp.Star) and isinstance(node.parent, exp.Count):
            node.replace(exp.Literal.number(1))
        elif isinstance(node, exp.Literal) and node.is_string and not isinstance(node.parent, exp.Cast):
            node.replace(exp.Var(this=node.this))
        elif isinstance(node, exp.Paren) and node is not root and not isinstance(node.this, _IN_BRACKETS):
            node.replace(node.this)
    for node in list(root.find_all(*_IN_BRACKETS)):
        if not isinstance(node.parent, exp.Paren) or node.parent is root:
            place = exp.Paren()
            node.replace(place)
            place.set("this", node)
    return root
