"""Rewrite of ``a JOIN t FOR SYSTEM_TIME AS OF <processing time> AS d ON …`` to lookups in t at read time.

The relations before the join become a query with one struct column per relation and the keys. The engine adds an array
with the found rows of each row. The rewritten text restores the relations from these columns under their names, so that
Spark resolves all other names of the query itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.column_pruning import relations_of
from lakelog.sql.query.lookup.condition import LookupCondition, Span, read_condition
from lakelog.sql.query.lookup.for_system_time import LookupTime, check_time
from lakelog.sql.query.references import QueryText, Reference
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.query_plan import LOOKUP_FOUND, LOOKUP_KEY, LOOKUP_LEFT, Lookup
from lakelog.sql.syntax.lexer import Token, quoted_name
from lakelog.sql.syntax.source_text import Edit, edited

_SIDE: Final = "_lakelog_side"
_ENDS: Final = (
    "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "SEMI", "ANTI", "LATERAL", "WHERE", "GROUP", "HAVING",
    "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT", "MINUS", "WINDOW",
    "QUALIFY", "PIVOT", "UNPIVOT", "TABLESAMPLE",
)  # fmt: skip
"""Words that end the condition of a join."""


@dataclass(frozen=True)
class LookupRead:
    """A lookup table reference: the table, the columns that the query needs, and the time clause."""

    reference: Reference
    table: Identifier
    schema: TableSchema
    columns: tuple[str, ...] | None
    options: dict[str, str]
    time: LookupTime


@dataclass(frozen=True)
class _Join:
    """A lookup join in the text, from its first keyword to the end of its condition."""

    read: LookupRead
    select: exp.Select
    alias: str
    before: tuple[str, ...]
    is_left: bool
    start: int
    end: int
    condition: LookupCondition


class LookupJoins:
    """The lookup joins of one query. ``edits`` are those of the rest of the text."""

    def __init__(
        self, session: SessionContext, query: QueryText, reads: Sequence[LookupRead], edits: Sequence[Edit]
    ) -> None:
        self._session, self._query, self._edits = session, query, list(edits)
        self._joins = [self._join_of(read) for read in reads]
        self.lookups: list[Lookup] = []

    def rewrite(self) -> list[Edit]:
        """The edits of the whole text; sets ``lookups``, which the engine must run first.

        Raises UnsupportedStatement at the position of an unsupported part of a lookup join.
        """
        groups: dict[int, list[_Join]] = {}
        for join in sorted(self._joins, key=lambda j: j.end):
            groups.setdefault(id(join.select), []).append(join)
        # inputs of a query are before its end, so expressions of WITH and inner queries are rewritten first
        for joins in sorted(groups.values(), key=lambda group: group[-1].end):
            self._rewrite_select(joins)
        return self._edits

    def _rewrite_select(self, joins: Sequence[_Join]) -> None:
        begin = self._from_end(joins[0])
        self._edits += self._star_edits(joins[0].select, begin)
        left, at = "", begin
        for join in joins:
            left += self._text(at, join.start)
            left, at = " " + self._lookup_text(join, left.strip()), join.end
        end = joins[-1].end
        self._edits = [edit for edit in self._edits if not edit.is_within(begin, end)]
        self._edits.append(Edit(begin, end, left))

    def _lookup_text(self, join: _Join, left: str) -> str:
        """The text that replaces the relations before a join and the joined one."""
        sides = [f"{LOOKUP_LEFT}{at}" for at in range(len(join.before))]
        structs = [f"struct({quoted_name(name)}.*) AS {side}" for name, side in zip(join.before, sides, strict=True)]
        keys = [self._text(span.start, span.end) for _, span in join.condition.keys]
        chosen = ", ".join([*structs, *(f"({key}) AS {LOOKUP_KEY}{at}" for at, key in enumerate(keys))])
        read, view = join.read, self._session.new_view()
        text = f"{self._with_text(join.select)}SELECT {chosen} FROM {left}"
        on = tuple(column for column, _ in join.condition.keys)
        self.lookups.append(Lookup(view, text, read.table, read.columns, read.options, on, tuple(keys)))
        rest = " AND ".join(f"({self._rest_text(join, span)})" for span in join.condition.rest)
        source = f"{view} AS {_SIDE}"
        if rest:  # not after ON, because Spark executes LATERAL with a condition as a real join
            named = ", ".join(f"{side} AS {quoted_name(name)}" for name, side in zip(join.before, sides, strict=True))
            kept = f"filter({LOOKUP_FOUND}, {quoted_name(join.alias)} -> {rest}) AS {LOOKUP_FOUND}"
            source = f"(SELECT {', '.join(sides)}, {kept} FROM (SELECT *, {named} FROM {view})) AS {_SIDE}"
        inline = "inline_outer" if join.is_left else "inline"
        out = [
            f"JOIN LATERAL inline(array({_SIDE}.{side})) AS {quoted_name(name)}"
            for name, side in zip(join.before, sides, strict=True)
        ]
        return " ".join([source, *out, f"JOIN LATERAL {inline}({_SIDE}.{LOOKUP_FOUND}) AS {quoted_name(join.alias)}"])

    def _rest_text(self, join: _Join, span: Span) -> str:
        """A further condition as a lambda, in which each column needs the name of its relation."""
        names = {name.lower() for name in join.read.schema.field_names}
        edits = list(self._edits)
        on = join.read.reference.node.parent.args["on"]  # type: ignore[union-attr]
        for column in on.find_all(exp.Column):
            start = self._query.start_of(column.parts[0])
            if start is None or not span.start <= start < span.end or len(column.parts) > 1:
                continue
            name = column.name.lower()
            if name not in names and len(join.before) > 1:
                raise self._query.source.error(
                    start,
                    f"qualify column '{column.name}' with its relation in the condition of a lookup join",
                )
            edits.append(Edit(start, start, quoted_name(join.alias if name in names else join.before[0]) + "."))
        return edited(self._query.source.script, edits, span.start, span.end)

    def _text(self, start: int, end: int) -> str:
        return edited(self._query.source.script, self._edits, start, end)

    def _with_text(self, select: exp.Select) -> str:
        """The expressions of every visible WITH, in order; inner ones hide outer ones."""
        texts: dict[str, str] = {}
        inside: exp.Expr = select
        levels: list[list[exp.CTE]] = [list(select.ctes)]
        while (outer := inside.parent) is not None:
            if isinstance(outer, exp.With):
                levels.append(outer.expressions[: next(i for i, c in enumerate(outer.expressions) if c is inside)])
            elif isinstance(outer, exp.Query) and not isinstance(inside, exp.With):
                levels.append(list(outer.ctes))
            inside = outer
        for ctes in reversed(levels):
            for cte in ctes:
                texts[cte.alias.lower()] = self._cte_text(cte)
        return f"WITH {', '.join(texts.values())} " if texts else ""

    def _cte_text(self, cte: exp.CTE) -> str:
        start = self._query.start_of(cte.args["alias"].this)
        tokens = self._query.tokens
        at = first = next(i for i, token in enumerate(tokens) if token.start == start)
        while not (tokens[at].is_word("AS") and tokens[at + 1].is_symbol("(")):
            at += 1
        return self._text(tokens[first].start, tokens[_closing(tokens, at + 1)].end)

    def _from_end(self, join: _Join) -> int:
        """The position after the FROM of a join's query."""
        tokens = self._query.tokens
        at = next(i for i, token in enumerate(tokens) if token.start == join.start)
        depth = 0
        while at > 0:
            at -= 1
            depth += tokens[at].is_symbol(")") - tokens[at].is_symbol("(")
            if depth == 0 and tokens[at].is_word("FROM") and not (at and tokens[at - 1].is_word("DISTINCT")):
                return tokens[at].end
        raise self._query.source.error(join.start, "a lookup join must follow FROM")

    def _star_edits(self, select: exp.Select, begin: int) -> list[Edit]:
        """Edits that expand ``*`` to its relations, without the columns that the rewrite adds."""
        tokens = self._query.tokens
        at = next(i for i, token in enumerate(tokens) if token.end == begin)
        names = [relation.alias_or_name for relation in relations_of(select)]
        merges = any(j.args.get("using") or j.args.get("method") for j in select.args.get("joins") or ())
        depth, out = 0, []
        while at > 0:
            at -= 1
            depth += tokens[at].is_symbol(")") - tokens[at].is_symbol("(")
            if depth == 0 and tokens[at].is_word("SELECT"):
                break
            before, behind = tokens[at - 1], tokens[at + 1]
            if depth or not tokens[at].is_symbol("*"):
                continue
            if before.is_word("SELECT", "DISTINCT", "ALL") or before.is_symbol(","):
                if behind.is_word("EXCEPT", "REPLACE") or merges or not all(names):
                    raise self._query.source.error(
                        tokens[at].start, "list the columns, or qualify * with a relation, in a lookup join"
                    )
                out.append(Edit(tokens[at].start, tokens[at].end, ", ".join(f"{quoted_name(n)}.*" for n in names)))
        return out

    def _join_of(self, read: LookupRead) -> _Join:
        source, node = self._query.source, read.reference.node
        join = None if node is None else node.parent
        select = None if join is None else join.parent
        position = read.reference.name.start
        if not isinstance(join, exp.Join) or not isinstance(select, exp.Select):
            raise source.error(
                position,
                f"table '{read.reference.name}' can only be looked up in a join: write FROM stream AS s JOIN "
                f"{read.reference.name} FOR SYSTEM_TIME AS OF PROCTIME() AS d ON s.k = d.k",
            )
        kind, side, method = (str(join.args.get(key) or "").upper() for key in ("kind", "side", "method"))
        if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER") or method:
            raise source.error(position, "a lookup join must be an INNER JOIN or a LEFT JOIN")
        relations = list(relations_of(select))
        before = [
            relation.alias_or_name for relation in relations[: next(i for i, r in enumerate(relations) if r is node)]
        ]
        if not all(before):
            raise source.error(position, "each relation before a lookup join needs a name: write (…) AS name")
        alias = node.alias_or_name if node is not None else ""
        if len({name.lower() for name in (*before, alias)}) <= len(before):
            raise source.error(position, f"two relations of this query have the same name: rename '{alias}'")
        check_time(self._session, self._query, select, read.time, relations[: len(before)])
        start, on, end = self._join_span(read)
        if on is None:
            keys = ", ".join(read.schema.primary_keys)
            raise source.error(
                position, f"a lookup join needs ON with an equality on columns of the primary key ({keys})"
            )
        condition = read_condition(on, alias, read.schema)
        if not read.schema.is_keyed:
            raise source.error(
                position,
                f"table '{read.reference.name}' has no primary key: a lookup join finds rows by columns of the primary "
                f"key",
            )
        if not condition.keys:
            keys = ", ".join(read.schema.primary_keys)
            raise source.error(
                on[0].start,
                f"a lookup join finds rows of '{read.reference.name}' by columns of its primary key ({keys}): write "
                f"{alias}.{read.schema.primary_keys[0]} = … here, and further conditions after AND",
            )
        return _Join(read, select, alias, tuple(before), side == "LEFT", start, end, condition)

    def _join_span(self, read: LookupRead) -> tuple[int, Sequence[Token] | None, int]:
        """The start of the join's keywords, the tokens of its condition, and the end of the condition."""
        tokens = self._query.tokens
        at = next(i for i, token in enumerate(tokens) if token.start == read.reference.name.start)
        first = at
        while first and tokens[first - 1].is_word("JOIN", "INNER", "LEFT", "OUTER"):
            first -= 1
        behind = next((i for i, token in enumerate(tokens) if token.start >= read.time.end), len(tokens))
        for _ in range(3):  # an alias may precede ON
            if behind < len(tokens) and not tokens[behind].is_word("ON", *_ENDS):
                behind += 1
        if behind >= len(tokens) or not tokens[behind].is_word("ON"):
            return tokens[first].start, None, read.time.end
        stop, depth = behind + 1, 0
        while stop < len(tokens):
            token = tokens[stop]
            depth += token.is_symbol("(") - token.is_symbol(")")
            calls = stop + 1 < len(tokens) and tokens[stop + 1].is_symbol("(")
            ends = token.is_word(*_ENDS) and not (token.is_word("LEFT", "RIGHT") and calls)
            if depth < 0 or (depth == 0 and (ends or token.is_symbol(",") or token.is_symbol(";"))):
                break
            stop += 1
        return tokens[first].start, tokens[behind + 1 : stop] or None, tokens[stop - 1].end


def _closing(tokens: Sequence[Token], at: int) -> int:
    """The index of the parenthesis that closes the one at an index."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += tokens[index].is_symbol("(") - tokens[index].is_symbol(")")
        if depth == 0:
            return index
    return len(tokens) - 1
