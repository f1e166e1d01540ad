"""Aggregates over a log of changes, which subtract retractions instead of counting them as rows.

``count``, ``sum`` and ``avg`` are rewritten with the sign of the row kind (+1 for +I and +U, -1 for -U and -D). A group
whose rows were all retracted disappears. In a stream into a table with a key, its row has the kind -D instead, and so
has a group that HAVING excludes. Other aggregates cannot retract a row and are rejected.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.sql.query.metadata_queries import only_select_of
from lakelog.sql.query.references import QueryText, Reference, cte_of
from lakelog.sql.syntax.lexer import Kind, Token
from lakelog.sql.syntax.source_text import Edit, edited
from lakelog.sql.syntax.token_stream import part_value

_LOG = logging.getLogger("lakelog.sql")

_ADDED: Final = f"{ROW_KIND_COLUMN} in ('+I', '+U')"
_SIGN: Final = f"case when {_ADDED} then 1 else -1 end"
_ROWS: Final = f"coalesce(sum({_SIGN}), 0)"
_FUNCTIONS: Final = ("COUNT", "SUM", "AVG", "MEAN")
_OTHERS: Final = ("where", "joins", "laterals", "group", "having", "qualify", "distinct", "limit", "offset")
"""Clauses of a SELECT with which a row may be left out, joined or folded."""
_AFTER_GROUP_BY: Final = ("HAVING", "ORDER", "SORT", "LIMIT", "OFFSET")


@dataclass(frozen=True)
class _Call:
    """An aggregate in the text: its position, and the position and tokens of its argument."""

    name: str
    start: int
    end: int
    inside: tuple[Token, ...]
    is_column: bool


@dataclass(frozen=True)
class _Item:
    """A column of the list of a SELECT: the position of its expression, and its alias in lower case, '' without one.

    ``divides`` is true for a division of aggregates, which fails for a group without rows if it divides by its number.
    """

    start: int
    end: int
    alias: str
    divides: bool


@dataclass(frozen=True)
class _Clauses:
    """Positions in the text of a SELECT: the end of its list, its HAVING, and the end of its other clauses up to there.

    ``condition`` is the start of the condition of HAVING, None without one.
    """

    list_end: int
    having: int
    condition: int | None
    end: int
    is_grouped: bool


@dataclass(frozen=True)
class SignedAggregates:
    """The aggregates of a query that reads only the changes of one table.

    With ``deletes`` the query has a last column ``_row_kind``: -D for groups that it would otherwise leave out.
    """

    query: QueryText
    select: exp.Select
    calls: tuple[_Call, ...]
    clauses: _Clauses
    deletes: bool

    def applied(self, edits: Sequence[Edit]) -> list[Edit]:
        """The edits of a query with those of the aggregates; edits inside of an aggregate apply to its text."""
        out = list(edits)
        for call in self.calls:
            text = _signed(call, self.query.source.script, out)
            out = [edit for edit in out if not edit.is_within(call.start, call.end)]
            out.append(Edit(call.start, call.end, text))
        return self._with_kinds(out) if self.deletes else [*out, *self._without_empty_groups()]

    def _with_kinds(self, edits: list[Edit]) -> list[Edit]:
        """The edits with the column of row kinds, which takes the place of HAVING."""
        at, conditions = self.clauses, [f"{_ROWS} <> 0"] if self.clauses.is_grouped else []
        items = _items(self.query, self.select, at.list_end)
        for item in items if at.is_grouped else ():
            if item.divides:
                edits.append(Edit(item.start, item.start, f"case when {_ROWS} <> 0 then "))
                edits.append(Edit(item.end, item.end, " end"))
        if at.condition is not None:
            named = [*edits, *self._without_aliases(items, edits)]
            conditions.append(f"({edited(self.query.source.script, named, at.condition, at.end)})")
            edits = [edit for edit in edits if not edit.is_within(at.having, at.end)]
            edits.append(Edit(at.having, at.end, ""))
        if conditions:
            kind = f", case when {' and '.join(conditions)} then '+I' else '-D' end AS {ROW_KIND_COLUMN}"
            edits.append(Edit(at.list_end, at.list_end, kind))
        return edits

    def _without_aliases(self, items: Sequence[_Item], edits: Sequence[Edit]) -> list[Edit]:
        """The edits of HAVING that put expressions in place of their aliases.

        In the list of the SELECT a column of the table with the name of an alias would win.
        """
        group, having = self.select.args.get("group"), self.select.args["having"]
        keys = {e.name.lower() for e in (group.expressions if group else ()) if isinstance(e, exp.Column)}
        by_alias = {item.alias: item for item in items if item.alias and item.alias not in keys}
        ends = {token.start: token.end for token in self.query.tokens}
        out = []
        for column in having.find_all(exp.Column):
            item, start = by_alias.get(column.name.lower()), self.query.start_of(column.this)
            if item and start in ends and not column.table and not column.find_ancestor(exp.AggFunc):
                text = edited(self.query.source.script, edits, item.start, item.end)
                out.append(Edit(start, ends[start], f"({text})"))
        return out

    def _without_empty_groups(self) -> list[Edit]:
        """The edits that exclude the groups whose rows were all retracted."""
        at, exists = self.clauses, f"{_ROWS} <> 0"
        if not at.is_grouped:
            return []
        if at.condition is not None:
            return [Edit(at.condition, at.condition, f" {exists} and ("), Edit(at.end, at.end, ")")]
        is_last = at.having == self.query.tokens[-1].end
        return [Edit(at.having, at.having, f" having {exists}" if is_last else f"having {exists} ")]


def signed_aggregates(
    query: QueryText, reference: Reference, table: str, is_keyed: bool, deletes: bool
) -> SignedAggregates | None:
    """The signed aggregates of a query; None if it has no aggregates, or refers to the row kinds.

    Called for each read of a log that returns all kinds of changes. ``deletes`` is true for the query of an INSERT into
    a table with a key. Logs a warning if a query of a table with a key loses the row kinds. Raises UnsupportedStatement
    for aggregates that cannot be signed.
    """
    node = reference.node
    if node is not None and (asked := _asking(node)):
        raise query.source.error(
            reference.name.start,
            f"{asked} asks for the rows of table {table}, and its changes are a stream: read its current rows "
            "('read.mode'='union' or 'file') or its log as a batch ('streaming'='false'), or write a join",
        )
    if query.tree is None or node is None or _names_kinds(query):
        return None
    wrong = next((fault for select in _selects_of(node) if (fault := _aggregation_in(select))), None)
    if wrong is None:
        if is_keyed and not any(query.tree.find_all(exp.Star)):
            _LOG.warning(
                "the changes of table %s are read without %s: retractions (-U, -D) look like rows; also select it, "
                "or read the current rows ('read.mode'='union')", table, ROW_KIND_COLUMN,
            )  # fmt: skip
        return None
    select = only_select_of(reference)
    calls = None if select is None or select is not query.tree else _calls(query, select)
    if select is None or calls is None:
        raise query.source.error(reference.name.start, retractions_refused(wrong, table))
    return SignedAggregates(query, select, calls, _clauses(query, select, deletes), deletes)


def retractions_refused(what: str, table: str) -> str:
    """The message for an aggregate that cannot be signed."""
    return (
        f"{what} over the changes of table {table} would count retractions (-U, -D) as rows: read its current rows "
        "('read.mode'='union' or 'file'), read its log as a batch ('streaming'='false'), or handle retractions with "
        f"{ROW_KIND_COLUMN}, as in sum(case when {_ADDED} "
        "then v else -v end)"
    )


def keeps_rows_of_keys(reference: Reference, keys: Sequence[str]) -> bool:
    """True if each row of a table stays one row with its key, so that the new row of a key replaces the old one.

    If not, an INSERT needs the old rows: only they tell that a row has left a filter, or has another key now.
    """
    select = only_select_of(reference)
    if select is None or any(select.args.get(part) for part in _OTHERS):
        return False
    parts = [part.this if isinstance(part, exp.Alias) else part for part in select.expressions]
    columns = {part.name.lower() for part in parts if isinstance(part, exp.Column | exp.Star)}
    return "*" in columns or {key.lower() for key in keys} <= columns


def _names_kinds(query: QueryText) -> bool:
    return any(t.kind in (Kind.WORD, Kind.QUOTED) and part_value(t).lower() == ROW_KIND_COLUMN for t in query.tokens)


def _asking(node: exp.Expr) -> str | None:
    """The expression that asks a table in a subquery, also by way of common table expressions; None without one."""
    below = node.parent
    while below is not None:
        if isinstance(below, exp.In):
            return "IN"
        if isinstance(below, exp.Exists):
            return "EXISTS"
        if isinstance(below, exp.CTE):
            readers = [t for t in below.root().find_all(exp.Table) if cte_of(t) is below]
            return next((asked for reader in readers if (asked := _asking(reader))), None)
        if isinstance(below, exp.Subquery) and not isinstance(below.parent, exp.From | exp.Join | exp.Query | exp.In):
            return "a subquery"
        below = below.parent
    return None


def _selects_of(node: exp.Expr) -> list[exp.Select]:
    """The SELECTs that the rows of a table pass through, also by way of common table expressions."""
    out: list[exp.Select] = []
    below: exp.Expr | None = node
    while below is not None:
        below = below.parent
        if isinstance(below, exp.Select):
            out.append(below)
        elif isinstance(below, exp.CTE):
            readers = [t for t in below.root().find_all(exp.Table) if cte_of(t) is below]
            return [*out, *(select for reader in readers for select in _selects_of(reader))]
    return out


def _aggregation_in(select: exp.Select) -> str | None:
    """The aggregation of a SELECT outside of its subqueries; None without one."""
    for clause, name in (("distinct", "DISTINCT"), ("group", "GROUP BY")):
        if select.args.get(clause):
            return name
    for part in select.walk(prune=lambda n: isinstance(n, exp.Select) and n is not select):
        if isinstance(part, exp.AggFunc | exp.Window):
            return part.sql_name().lower() if isinstance(part, exp.Func) else "a window function"
    return None


def _calls(query: QueryText, select: exp.Select) -> tuple[_Call, ...] | None:
    """The aggregates of a SELECT in the text; None if one of them cannot be signed."""
    nodes = list(select.find_all(exp.AggFunc))
    is_simple = all(isinstance(f, exp.Count | exp.Sum | exp.Avg) and not f.expressions for f in nodes)
    others = (exp.Window, exp.Filter, exp.Subquery, exp.Exists, exp.Distinct)
    if not is_simple or any(select.find(kind) for kind in others):
        return None
    if len(list(select.find_all(exp.Select))) > 1:
        return None
    places = [_call_at(query.tokens, at) for at in range(len(query.tokens))]
    calls = tuple(call for call in places if call is not None)
    return calls if len(calls) == len(nodes) else None


def _items(query: QueryText, select: exp.Select, list_end: int) -> list[_Item]:
    """The columns of a SELECT list that ends at a position; none if commas in the text do not separate them."""
    tokens = [t for t in query.tokens if t.end <= list_end]
    depth, parts = 0, [list[Token]()]
    for token in tokens[1 + next(i for i, t in enumerate(tokens) if t.is_word("SELECT")) :]:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_symbol(","):
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) != len(select.expressions) or not all(parts):
        return []
    out = []
    for node, part in zip(select.expressions, parts, strict=True):
        inner, behind = node, 0
        if isinstance(node, exp.Alias):
            inner, behind = node.this, 2 if part[-2].is_word("AS") else 1
        divides = any(division.find(exp.AggFunc) for division in inner.find_all(exp.Div, exp.IntDiv, exp.Mod))
        out.append(_Item(part[0].start, part[len(part) - behind - 1].end, node.alias.lower(), divides))
    return out


def _call_at(tokens: Sequence[Token], at: int) -> _Call | None:
    if at + 2 >= len(tokens) or not tokens[at].is_word(*_FUNCTIONS) or not tokens[at + 1].is_symbol("("):
        return None
    depth, end = 1, at + 2
    while end < len(tokens) and depth:
        depth += tokens[end].is_symbol("(") - tokens[end].is_symbol(")")
        end += 1
    before, behind = tokens[at - 1], tokens[end] if end < len(tokens) else None
    alone = (before.is_word("SELECT") or before.is_symbol(",")) and (
        behind is None or behind.is_symbol(",") or behind.is_word("FROM")
    )
    name = "AVG" if tokens[at].is_word("MEAN") else tokens[at].text.upper()
    return _Call(name, tokens[at].start, tokens[end - 1].end, tuple(tokens[at + 2 : end - 1]), alone)


def _signed(call: _Call, script: str, edits: Sequence[Edit]) -> str:
    start, end = call.inside[0].start, call.inside[-1].end
    argument = edited(script, edits, start, end)
    is_all = len(call.inside) == 1 and (call.inside[0].is_symbol("*") or call.inside[0].kind is Kind.NUMBER)
    rows = f"coalesce(sum(case when ({argument}) is null then 0 when {_ADDED} then 1 else -1 end), 0)"
    total = f"sum(case when {_ADDED} then ({argument}) else -({argument}) end)"
    if call.name == "COUNT":
        text = _ROWS if is_all else rows
    elif call.name == "SUM":
        text = f"case when {rows} <> 0 then {total} end"
    else:
        text = f"{total} / nullif({rows}, 0)"
    if not call.is_column:
        return f"({text})"
    of_column = all(t.kind in (Kind.WORD, Kind.QUOTED) or t.is_symbol(".") for t in call.inside)
    shown = part_value(call.inside[-1]) if of_column else "1" if script[start:end] == "*" else argument
    shown = shown.replace("`", "")
    return f"{text} AS `{call.name.lower()}({shown})`"


def _clauses(query: QueryText, select: exp.Select, needs_list: bool) -> _Clauses:
    """The clauses of the only SELECT of a query.

    With ``needs_list``, raises UnsupportedStatement if FROM is before the list.
    """
    tokens, depth, at = query.tokens, 0, None
    first = next(i for i, t in enumerate(tokens) if t.is_word("SELECT"))
    for i in range(first, len(tokens)):
        depth += tokens[i].is_symbol("(") - tokens[i].is_symbol(")")
        if depth == 0 and tokens[i].is_word("FROM") and not tokens[i - 1].is_word("DISTINCT"):  # IS DISTINCT FROM
            at = i
            break
    if at is None and needs_list:
        raise query.source.error(
            tokens[first].start, "an aggregate of a stream into a table is written SELECT … FROM …"
        )
    list_end, at, is_grouped = tokens[(at or 1) - 1].end, at or first, bool(select.args.get("group"))
    if is_grouped:
        at = next(i for i, t in enumerate(tokens) if t.is_word("GROUP"))
    ends = [i for i in range(at, len(tokens)) if tokens[i].is_word(*_AFTER_GROUP_BY)]
    if not ends:
        return _Clauses(list_end, tokens[-1].end, None, tokens[-1].end, is_grouped)
    start = tokens[ends[0]].start
    if not tokens[ends[0]].is_word("HAVING"):
        return _Clauses(list_end, start, None, start, is_grouped)
    last = tokens[ends[1] - 1] if len(ends) > 1 else tokens[-1]
    return _Clauses(list_end, start, tokens[ends[0]].end, last.end, is_grouped)
