"""Checks the columns and relations that a query names, so that a typo is a typo, with or without Spark.

Only what is certain is an error: a name is not checked where a relation is not known here (a view of Spark), or where
columns come from elsewhere (LATERAL, PIVOT, functions of tables).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from lakelog.errors import InvalidSchema, did_you_mean
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.references import QueryText
from lakelog.sql.syntax.fragments import parse_tree
from lakelog.sql.syntax.source_text import point_at

_WITHOUT_BRACKETS: Final = frozenset(
    ("current_date", "current_timestamp", "current_time", "current_user", "current_catalog", "current_database",
     "current_schema", "current_timezone", "localtimestamp", "session_user", "user", "now", "pi", "default")
)  # fmt: skip
"""Functions that Spark calls without brackets."""
_UNITS: Final = frozenset(
    ("year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second", "millisecond", "microsecond")
)
"""Words that some functions take as an argument."""
_HIDDEN: Final = ("_",)
"""Start of the names of hidden columns, such as _metadata and _row_kind."""

Columns = Mapping[str, str]
"""Name in lower case → as it is written."""


def check_names(query: QueryText, tables: Mapping[int, TableSchema]) -> None:
    """Raises InvalidSchema for a column or relation that the query does not have, with the nearest name.

    ``tables`` are the schemas by the ``id`` of the nodes in the tree of the query.
    """
    tree = query.tree
    if tree is None or tree.find(exp.Lateral, exp.Pivot, exp.Unnest, exp.UDTF) or tree.find(exp.Lambda):
        return
    try:
        scopes = traverse_scope(tree)
    except (SqlglotError, RecursionError):
        return
    names = _Names(query, tables)
    for scope in scopes:
        names.check(scope)


def check_expression(text: str, relations: Mapping[str, Iterable[str] | None], statement: str) -> None:
    """Raises InvalidSchema for a name in an expression that no relation has.

    ``relations`` are the columns by alias, None for those that are not known. ``statement`` begins the message.
    """
    try:
        tree = parse_tree(text)
    except (SqlglotError, RecursionError):
        return
    known: dict[str, Columns | None] = {
        alias.lower(): None if columns is None else {name.lower(): name for name in columns}
        for alias, columns in relations.items()
    }
    if None in known.values() or tree.find(exp.Query, exp.Lambda):
        return
    all_columns = {name: spelled for columns in known.values() for name, spelled in (columns or {}).items()}
    for column in tree.find_all(exp.Column):
        result = _unknown_part(column, known, all_columns)
        if result is not None:
            is_text = len(column.parts) == 1 and not column.this.quoted
            quotes = f". Write a text in quotes: '{column.name}'" if is_text else ""
            raise InvalidSchema(f"{statement}: there is no {result.text(known)}{quotes}")


@dataclass(frozen=True)
class _Unknown:
    """A part of a name that no relation has; ``alias`` is that of the relation which should have the column."""

    node: exp.Expr
    names: Columns
    is_relation: bool = False
    alias: str | None = None

    def text(self, relations: Mapping[str, Columns | None]) -> str:
        """What is missing, the nearest name, and the known ones."""
        near = did_you_mean(self.node.name, self.names.values()) or "."
        if self.is_relation:
            return f"relation '{self.node.name}'{near} Relations: {', '.join(relations)}"
        of = relations if self.alias is None else {self.alias: relations[self.alias]}
        listed = "; ".join(
            f"{alias or 'the subquery'}: {', '.join((columns or {}).values())}" for alias, columns in of.items()
        )
        return f"column '{self.node.name}'{near} Columns of {listed}"


def _unknown_part(column: exp.Column, relations: Mapping[str, Columns | None], all_columns: Columns) -> _Unknown | None:
    """The part of a column's name that is not known."""
    if isinstance(column.this, exp.Star) or not isinstance(column.this, exp.Identifier):
        return None
    parts = [part.name.lower() for part in column.parts]
    if parts[0].startswith(_HIDDEN):
        return None
    if len(parts) == 1:
        name = parts[0]
        is_unit = name in _UNITS and isinstance(column.parent, exp.Func)
        is_word = not column.this.quoted and (name in _WITHOUT_BRACKETS or is_unit)
        return None if name in all_columns or is_word else _Unknown(column.this, all_columns)
    if parts[0] in all_columns or len(parts) > 3:
        return None  # a part of a struct, or a name with its catalog
    if len(parts) == 3:  # with its database
        columns = relations.get(parts[1])
        is_known = columns is None or parts[2] in columns or parts[1] in all_columns
        return None if is_known else _Unknown(column.this, columns or {}, alias=parts[1])
    columns = relations.get(parts[0])
    if columns is None:
        return _Unknown(column.parts[0], {name: name for name in relations}, is_relation=True)
    if parts[1] in columns or parts[1].startswith(_HIDDEN):
        return None
    return _Unknown(column.this, columns, alias=parts[0])


class _Names:
    def __init__(self, query: QueryText, tables: Mapping[int, TableSchema]) -> None:
        self._query, self._tables = query, tables

    def check(self, scope: Scope) -> None:
        select = scope.expression
        if not isinstance(select, exp.Select):
            return
        around = _scopes_around(scope)
        relations = {
            alias.lower(): self._columns_of(source)
            for place in reversed(around)
            for alias, source in _relations_of(place).items()
        }
        known = list(relations.values())
        if not known or any(columns is None for columns in known):
            return
        all_columns = {name: spelled for columns in known for name, spelled in (columns or {}).items()}
        for place in around:
            if isinstance(place.expression, exp.Select):
                all_columns |= {p.alias.lower(): p.alias for p in place.expression.selects if p.alias}
        for column in scope.find_all(exp.Column):  # without those of its subqueries
            self._check(column, relations, all_columns)

    def _check(self, column: exp.Column, relations: Mapping[str, Columns | None], all_columns: Columns) -> None:
        if self._query.start_of(column.parts[0]) is None:
            return
        result = _unknown_part(column, relations, all_columns)
        if result is not None:
            script, start = self._query.source.script, self._query.start_of(result.node) or 0
            raise InvalidSchema(point_at(script, start, f"the query has no {result.text(relations)}"))

    def _columns_of(self, source: object) -> Columns | None:
        """The columns of a relation in lower case; None if they are not known."""
        if isinstance(source, exp.Table):
            schema = self._tables.get(id(source))
            alias = source.args.get("alias")
            if schema is None or (alias is not None and alias.args.get("columns")):
                return None
            return {name.lower(): name for name in schema.field_names}
        if not isinstance(source, Scope):
            return None
        alias = source.expression.parent.args.get("alias") if source.expression.parent is not None else None
        if isinstance(alias, exp.TableAlias) and alias.columns:
            return {column.name.lower(): column.name for column in alias.columns}
        return self._outputs_of(source)

    def _outputs_of(self, scope: Scope) -> Columns | None:
        if isinstance(scope.expression, exp.SetOperation):
            return self._outputs_of(scope.set_operation_scopes[0]) if scope.set_operation_scopes else None
        if not isinstance(scope.expression, exp.Select):
            return None
        result: dict[str, str] = {}
        for part in scope.expression.selects:
            if part.is_star:
                for _, source in scope.selected_sources.values():
                    columns = self._columns_of(source)
                    if columns is None:
                        return None
                    result |= columns
            elif isinstance(part, exp.Alias | exp.Column):
                result[part.alias_or_name.lower()] = part.alias_or_name
            else:
                return None  # a name that Spark makes
        return result


def _relations_of(scope: Scope) -> dict[str, object]:
    """The relations of a SELECT by alias, also those of semi joins, whose columns only its condition names."""
    result: dict[str, object] = {alias: source for alias, (_, source) in scope.selected_sources.items()}
    for join in scope.expression.args.get("joins") or ():
        result.setdefault(join.this.alias_or_name, scope.sources.get(join.this.alias_or_name))
    return result


def _scopes_around(scope: Scope) -> list[Scope]:
    """A scope and those whose columns its query may name, too."""
    result, here = [scope], scope
    while here.parent is not None:
        here = here.parent
        result.append(here)
    return result
