"""Temporary views as targets of UPDATE, DELETE and MERGE: the rows of their table that they show."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from lakelog.errors import InvalidRequest
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.syntax.fragments import DmlTarget, parse_tree
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.sql.syntax.token_stream import Name


@dataclass(frozen=True)
class ViewedTable:
    """The table of a view, under the name of the view, and the view's condition on its rows."""

    table: DmlTarget
    condition: str | None

    def narrowed(self, condition: str | None) -> str | None:
        """The rows of the view that meet a condition."""
        parts = [part for part in (self.condition, condition) if part is not None]
        return " AND ".join(f"({part}\n)" for part in parts) or None  # a comment ends with its line


def viewed_table(session: SessionContext, changed: DmlTarget, whole: bool = False) -> ViewedTable | None:
    """The table that a statement on a temporary view changes; None for any other name.

    ``whole``: the statement is not for a part of the rows. Raises InvalidRequest for a view that is not a selection of
    rows, with all columns, of one table of the lake.
    """
    if not session.is_hidden(changed.name):
        return None
    view = session.engine.view_of(changed.name.sql)
    if view is None:
        return None
    text, source = view
    try:
        tree, tokens = parse_tree(text), sqlglot.tokenize(text, dialect="spark")
    except (SqlglotError, RecursionError):
        raise _refused(changed) from None
    schema = session.tables.load_schema(source.table)
    relation = _relation(tree)
    if schema is None or source.options or relation is None or relation.name.lower() != source.view.lower():
        raise _refused(changed)
    names = [item.name.lower() for item in tree.expressions if isinstance(item, exp.Column)]
    if not isinstance(tree.expressions[0], exp.Star) and (
        sorted(names) != sorted(name.lower() for name in schema.field_names) or len(names) != len(tree.expressions)
    ):
        raise _refused(changed)
    where = tree.args.get("where")
    if where is not None and (whole or where.find(exp.Query, exp.Subquery)):
        raise _refused(changed)
    parts = session.parts_of(source.table)
    table = DmlTarget(Name(parts, changed.name.start, changed.name.end), changed.alias, changed.options)
    return ViewedTable(table, None if where is None else _condition(text, tokens, where, relation, changed.alias))


def _relation(tree: exp.Expr) -> exp.Table | None:
    """The table of a SELECT of columns and rows; None for any other query."""
    clauses = {name for name, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or clauses - {"expressions", "from_", "from", "where", "kind", "hint"}:
        return None
    if any(
        isinstance(item, exp.Star) and (item.args.get("except_") or item.args.get("except"))
        for item in tree.expressions
    ):
        return None
    clause = tree.args.get("from_") or tree.args.get("from")
    relation = None if clause is None else clause.this
    if not isinstance(relation, exp.Table):
        return None
    return None if {name for name, value in relation.args.items() if value} - {"this", "alias"} else relation


def _condition(text: str, tokens: list[sqlglot.Token], where: exp.Expr, relation: exp.Table, alias: str) -> str:
    """The text of the view's condition, in which the table has the statement's name."""
    start = next(token.end + 1 for token in tokens if token.token_type == TokenType.WHERE)
    edits = []
    for column in where.find_all(exp.Column):
        first = column.parts[0]
        if len(column.parts) > 1 and first.name.lower() == relation.alias_or_name.lower():
            edits.append((int(first.meta["start"]), int(first.meta["end"]) + 1))
    for begin, end in sorted(edits, reverse=True):
        text = text[:begin] + quoted_name(alias) + text[end:]
    return text[start:].strip()


def _refused(changed: DmlTarget) -> InvalidRequest:
    return InvalidRequest(
        f"'{changed.name}' is a view that is more than rows of one table with all its columns, so its rows are not "
        f"changed: write the name of the table"
    )
