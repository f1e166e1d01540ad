"""Keeps the row kinds of a change stream on their way into another table: ``INSERT INTO t SELECT … FROM log``."""

from __future__ import annotations

from dataclasses import replace

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.sql.runtime.query_plan import QueryPlan, Source


def with_row_kind(plan: QueryPlan, source: Source) -> QueryPlan | None:
    """The plan with ``_row_kind`` as last column, when each row of the query stands for one row of the log.

    Called for an INSERT from a read of a log, so that an update or delete of the source updates or deletes in the
    target. None when the query is more than columns and filters of one table (it aggregates, joins, …), or has the
    column already.
    """
    try:
        tree = sqlglot.parse_one(plan.text, dialect="spark")
        tokens = sqlglot.tokenize(plan.text, dialect="spark")
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Select) or not _is_plain(tree):
        return None
    if any(e.is_star or e.alias_or_name == ROW_KIND_COLUMN for e in tree.expressions):
        return None
    depth = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.FROM:
            if before is None:
                return None  # FROM comes first
            if before.token_type == TokenType.DISTINCT:
                continue  # IS DISTINCT FROM
            at = before.end + 1
            text = f"{plan.text[:at]}, {ROW_KIND_COLUMN}{plan.text[at:]}"
            wanted = None if source.columns is None else (*source.columns, ROW_KIND_COLUMN)
            sources = tuple(replace(s, columns=wanted) if s is source else s for s in plan.sources)
            return replace(plan, text=text, sources=sources)
    return None


def _is_plain(tree: exp.Select) -> bool:
    clauses = ("group", "having", "distinct", "joins", "laterals", "limit", "order", "windows", "with_", "with")
    if any(tree.args.get(c) for c in clauses):
        return False
    return not any(tree.find_all(exp.AggFunc, exp.Window, exp.Subquery, exp.Explode))
