"""Whether the column behind ``FOR SYSTEM_TIME AS OF`` is the time of reading a row: followed to where it is made."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Final

from sqlglot import exp

from lakelog.sql.query.column_pruning import relations_of
from lakelog.sql.query.lookup.for_system_time import LookupTime, is_now
from lakelog.sql.query.references import QueryText, cte_of
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.syntax.token_stream import Name

_NAMES: Final = ("proctime", "processingtime")
"""A column of Spark's relations counts as the time of reading when it is called so; nobody can look into them."""


class _Origin(enum.Enum):
    NOW = "the time of reading"
    STORED = "a value of the row"
    MISSING = "no column"


def check_time(
    session: SessionContext, query: QueryText, select: exp.Select, time: LookupTime, relations: Sequence[exp.Expr]
) -> None:
    """Raises UnsupportedStatement for a column that a row brings with it (event time), or that is not there."""
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
            f"'{text}' is a value of the row, such as an event time: a lookup join finds the rows of the table at the "
            f"time of reading, not those of another time. Write FOR SYSTEM_TIME AS OF PROCTIME(), or a column that is "
            f"PROCTIME() AS … in a query before the join",
        )


def _in_relations(session: SessionContext, parts: Sequence[str], relations: Iterable[exp.Expr]) -> _Origin:
    *front, name = parts
    chosen = [r for r in relations if not front or r.alias_or_name.lower() == front[-1].lower()]
    found = {_in_relation(session, relation, name) for relation in chosen}
    return next((origin for origin in (_Origin.NOW, _Origin.STORED) if origin in found), _Origin.MISSING)


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
    return _Origin.STORED if name.lower() in (n.lower() for n in schema.field_names) else _Origin.MISSING


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
            found = _in_relations(session, [*front, name], relations)
            if found is not _Origin.MISSING:
                return found
    return _Origin.MISSING
