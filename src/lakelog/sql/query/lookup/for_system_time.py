"""Parser of ``FOR SYSTEM_TIME AS OF <processing time>`` after a table name: a join with its rows at that time."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from lakelog.options.lookup import PROCTIME_COLUMNS
from lakelog.sql.query.column_pruning import relations_of
from lakelog.sql.query.references import QueryText, cte_of
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.syntax.lexer import Kind, Token
from lakelog.sql.syntax.source_text import Edit, SourceText
from lakelog.sql.syntax.token_stream import Name, part_value

PROCTIME: Final = "PROCTIME"
"""Flink's function for the processing time, which is current_timestamp() in Spark."""
_NOW: Final = (PROCTIME, "CURRENT_TIMESTAMP", "NOW", "LOCALTIMESTAMP")
_NAMES: Final = ("proctime", "processingtime")
"""Names of columns of Spark's relations that count as processing time, because their definition is unknown."""


@dataclass(frozen=True)
class LookupTime:
    """A clause ``[start, end)`` of the script; ``column`` are the parts of a column's name, if it has one."""

    start: int
    end: int
    column: tuple[str, ...] = ()


def read_lookup_time(source: SourceText, tokens: Sequence[Token], start: int) -> LookupTime | None:
    """The clause that begins at this token; None if it is time travel to a plain value.

    Raises UnsupportedStatement for another function or an expression.
    """
    rest = [t for t in tokens if t.start >= start]
    at = 1 if rest[0].is_word("FOR") else 0
    if not rest[at].is_word("SYSTEM_TIME") or len(rest) < at + 4:
        return None
    at += 3  # after AS OF
    first = rest[at]
    if first.kind not in (Kind.WORD, Kind.QUOTED) or (
        first.is_word("TIMESTAMP", "DATE") and len(rest) > at + 1 and rest[at + 1].kind is Kind.STRING
    ):
        return None
    parts, last = [part_value(first)], at
    while last + 2 < len(rest) and rest[last + 1].is_symbol("."):
        parts, last = [*parts, part_value(rest[last + 2])], last + 2
    if last + 1 < len(rest) and rest[last + 1].is_symbol("("):
        if not first.is_word(*_NOW) or last > at or last + 2 >= len(rest) or not rest[last + 2].is_symbol(")"):
            raise source.error(
                first.start,
                "expected the processing time: PROCTIME(), current_timestamp(), or a column defined as one of these",
            )
        return LookupTime(start, rest[last + 2].end)
    if last == at and first.is_word("CURRENT_TIMESTAMP", "LOCALTIMESTAMP"):
        return LookupTime(start, first.end)
    return LookupTime(start, rest[last].end, tuple(parts))


def is_now(name: str) -> bool:
    """Returns whether this is the name of a processing time function."""
    return name.upper() in _NOW


def proctime_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Edits that replace ``PROCTIME()`` by Spark's function."""
    return [
        Edit(token.start, token.end, "current_timestamp")
        for token, behind in zip(tokens, tokens[1:], strict=False)
        if token.is_word(PROCTIME) and behind.is_symbol("(")
    ]


class _Origin(enum.Enum):
    NOW = "the read time"
    STORED = "a value of the row"
    MISSING = "no column"


def check_time(
    session: SessionContext, query: QueryText, select: exp.Select, time: LookupTime, relations: Sequence[exp.Expr]
) -> None:
    """Raises UnsupportedStatement for a column with event time, or for a missing column."""
    if not time.column:
        return
    origin = _in_relations(session, list(time.column), relations)
    text = ".".join(time.column)
    if origin is _Origin.MISSING:
        raise query.source.error(
            time.start, f"no relation before this join has a column '{text}': write FOR SYSTEM_TIME AS OF PROCTIME()"
        )
    if origin is _Origin.STORED:
        raise query.source.error(
            time.start,
            f"'{text}' is a column of the row, such as an event time: a lookup join reads the table as of now, not "
            "as of another time. Write FOR SYSTEM_TIME AS OF PROCTIME(), or a column that is PROCTIME() AS … in a "
            "query before the join",
        )


def _in_relations(session: SessionContext, parts: Sequence[str], relations: Iterable[exp.Expr]) -> _Origin:
    *front, name = parts
    chosen = [r for r in relations if not front or r.alias_or_name.lower() == front[-1].lower()]
    columns = {_in_relation(session, relation, name) for relation in chosen}
    return next((origin for origin in (_Origin.NOW, _Origin.STORED) if origin in columns), _Origin.MISSING)


def _in_relation(session: SessionContext, relation: exp.Expr, name: str) -> _Origin:
    cte = cte_of(relation) if isinstance(relation, exp.Table) else None
    if cte is not None:
        return _in_query(session, cte.this, name)
    if isinstance(relation, exp.Subquery):
        return _in_query(session, relation.this, name)
    if not isinstance(relation, exp.Table):
        return _Origin.STORED
    parts = tuple(part.name for part in relation.parts)
    is_view = len(parts) == 1 and session.engine.is_spark_relation(parts[0])
    identifier = None if is_view else session.find(Name(parts, 0, 0))
    schema = None if identifier is None else session.tables.load_schema(identifier)
    if schema is None:
        return _Origin.NOW if name.lower().replace("_", "") in _NAMES else _Origin.STORED
    if name.lower() in (n.lower() for n in schema.field_names):
        return _Origin.STORED
    proctimes = schema.options.get(PROCTIME_COLUMNS.key, "").lower().split(",")
    return _Origin.NOW if name.lower() in proctimes else _Origin.MISSING


def _in_query(session: SessionContext, query: exp.Expr, name: str) -> _Origin:
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return _Origin.STORED
    relations = list(relations_of(query))
    for expression in query.expressions:
        if not expression.is_star and expression.alias_or_name.lower() == name.lower():
            value = expression.unalias()
            if isinstance(value, exp.Column):
                return _in_relations(session, [part.name for part in value.parts], relations)
            is_time = isinstance(value, exp.CurrentTimestamp) or (isinstance(value, exp.Func) and is_now(value.name))
            return _Origin.NOW if is_time else _Origin.STORED
    for expression in query.expressions:
        if expression.is_star:
            front = [expression.table] if isinstance(expression, exp.Column) and expression.table else []
            column = _in_relations(session, [*front, name], relations)
            if column is not _Origin.MISSING:
                return column
    return _Origin.MISSING
