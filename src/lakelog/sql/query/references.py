"""Finds the table names in a query, their hints and the positions of edits.

sqlglot parses a copy of the text in which comments and hints are blanks and every other character keeps its position.
So positions of its nodes are positions in the user's text. The copy is one line long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from lakelog.sql.syntax.fragments import parse_tree
from lakelog.sql.syntax.lexer import Kind, Token, tokenize
from lakelog.sql.syntax.source_text import SourceText, point_at
from lakelog.sql.syntax.table_changes import ChangesCall, change_calls
from lakelog.sql.syntax.token_stream import Name, TokenStream, part_value, read_hint

# Words that can follow a table name without being its alias.
_NO_ALIAS = (
    "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "OUTER",
    "SEMI", "ANTI", "ON", "USING", "UNION", "INTERSECT", "EXCEPT", "MINUS", "WINDOW", "LATERAL", "PIVOT", "UNPIVOT",
    "TABLESAMPLE", "CLUSTER", "DISTRIBUTE", "SORT", "OFFSET", "QUALIFY", "SELECT", "INSERT", "SET", "VERSION",
    "TIMESTAMP", "FOR", "WITH", "WATERMARK",
)  # fmt: skip

_SET_WORDS = ("UNION", "INTERSECT", "EXCEPT", "MINUS", "ALL", "DISTINCT")


@dataclass(frozen=True)
class Hint:
    """Read options in the query for the preceding reference: ``/*+ OPTIONS(…) */`` or ``WITH (…)``."""

    start: int
    end: int
    options: dict[str, str]


@dataclass(frozen=True)
class Reference:
    """A table name in a query. All positions are offsets into the script.

    ``alias_at`` is the position for a new alias, None if the query has one; ``ends`` are the positions after which a
    hint of this reference may follow; ``travel`` is the start of a time-travel clause. ``changes`` is the call of
    ``table_changes`` that names the table.
    """

    name: Name
    alias_at: int | None
    ends: tuple[int, ...]
    travel: int | None
    node: exp.Table | None = None
    changes: ChangesCall | None = None


@dataclass(frozen=True)
class QueryText:
    """A parsed query. If sqlglot cannot parse it, ``tree`` is None and ``syntax_error`` names the position."""

    source: SourceText
    tokens: tuple[Token, ...]
    hints: tuple[Hint, ...]
    tree: exp.Expr | None
    syntax_error: str | None
    _token_indexes: dict[int, int] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def read(cls, source: SourceText) -> QueryText:
        """Parses the text. Raises UnsupportedStatement for a malformed hint."""
        tokens = tuple(tokenize(source.script, source.start, source.end))
        hints, blanks = _find_hints(source, tokens)
        plain = [t for t in tokens if t.kind is not Kind.HINT and not any(a <= t.start < b for a, b in blanks)]
        tree, syntax_error = _parse(source, plain)
        return cls(source, tuple(plain), hints, tree, syntax_error, {t.start: i for i, t in enumerate(plain)})

    def references(self) -> list[Reference]:
        """The table names in the order of the text, without names of common table expressions."""
        by_start = {reference.name.start: reference for reference in self._changes()}
        if self.tree is None:
            by_start |= {reference.name.start: reference for reference in self._references_by_tokens()}
            return [by_start[start] for start in sorted(by_start)]
        for node in self.tree.find_all(exp.Table):
            if cte_of(node) is None and (reference := self._reference(node)) is not None:
                by_start.setdefault(reference.name.start, reference)
        return [by_start[start] for start in sorted(by_start)]

    def _changes(self) -> Iterator[Reference]:
        for call in change_calls(self.source, self.tokens):
            has_alias = self._alias_at(call.last + 1) is not None
            yield replace(self._reference_at(call.name, call.last, has_alias, None), changes=call)

    def start_of(self, identifier: exp.Expr) -> int | None:
        """The start of an identifier of the tree in the script."""
        start = identifier.meta.get("start")
        return None if start is None else self.source.start + int(start)

    def alias_ends(self, position: int) -> list[int]:
        """A position after which an alias may follow, and the end of that alias."""
        at = next((i for i, token in enumerate(self.tokens) if token.start >= position), len(self.tokens))
        behind = self._alias_at(at)
        return [position] if behind is None else [position, self.tokens[behind - 1].end]

    def words_outside_tree(self) -> set[str]:
        """Lower-case words that the tree does not represent as names (keywords, functions)."""
        assert self.tree is not None
        names = {self.start_of(i) for i in self.tree.find_all(exp.Identifier)}
        return {part_value(t).lower() for t in self.tokens if t.kind is Kind.WORD and t.start not in names}

    def _reference(self, node: exp.Table) -> Reference | None:
        parts = [node.args.get(key) for key in ("catalog", "db", "this")]
        starts = [self.start_of(p) for p in parts if isinstance(p, exp.Identifier)]
        if not isinstance(node.this, exp.Identifier) or None in starts or not starts:
            return None
        indexes = [self._token_indexes.get(s) for s in starts if s is not None]
        if None in indexes:
            return None
        pieces = [self.tokens[i] for i in indexes if i is not None]
        name = Name(tuple(part_value(t) for t in pieces), pieces[0].start, pieces[-1].end)
        alias = node.args.get("alias")
        last = self._token_indexes[pieces[-1].start]
        return self._reference_at(name, last, alias is not None and alias.this is not None, node)

    def _reference_at(self, name: Name, last: int, has_alias: bool, node: exp.Table | None) -> Reference:
        """The reference with the positions around a name whose last token has this index."""
        ends = [name.end]
        at = last + 1
        travel = self.tokens[at].start if self._at_time_travel(at) else None
        if self._is_word(at, "TABLESAMPLE"):
            at = self._after_parentheses(at + 1)
            if self._is_word(at, "REPEATABLE"):
                at = self._after_parentheses(at + 1)
            ends.append(self.tokens[at - 1].end)
        alias_at = None if has_alias else ends[-1]
        if has_alias:
            at += 1 if self._is_word(at, "AS") else 0
            at = self._after_parentheses(at + 1)
            ends.append(self.tokens[min(at, len(self.tokens)) - 1].end)
        return Reference(name, alias_at, tuple(ends), travel, node)

    def _is_word(self, index: int, *words: str) -> bool:
        return index < len(self.tokens) and self.tokens[index].is_word(*words)

    def _at_time_travel(self, at: int) -> bool:
        at += 1 if self._is_word(at, "FOR") else 0
        return (
            self._is_word(at, "VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")
            and self._is_word(at + 1, "AS")
            and self._is_word(at + 2, "OF")
        )

    def _after_parentheses(self, at: int) -> int:
        """The index after ``( … )`` if it begins at an index, else the index itself."""
        if at >= len(self.tokens) or not self.tokens[at].is_symbol("("):
            return at
        depth = 0
        while at < len(self.tokens):
            depth += self.tokens[at].is_symbol("(") - self.tokens[at].is_symbol(")")
            at += 1
            if depth == 0:
                break
        return at

    def _references_by_tokens(self) -> Iterator[Reference]:
        """Names after FROM, JOIN and the commas of FROM, for text that only Spark can parse."""
        defined = {
            part_value(t).lower()
            for i, t in enumerate(self.tokens)
            if t.kind in (Kind.WORD, Kind.QUOTED) and self._is_definition(i)
        }
        at = 0
        while at < len(self.tokens):
            at += 1
            if self._at_table_query(at - 1) and (named := self._name_at(at)) is not None:
                yield replace(self._reference_at(named[0], named[1] - 1, False, None), alias_at=None)
                continue
            if not self._is_word(at - 1, "FROM", "JOIN"):
                continue
            while (named := self._name_at(at)) is not None:
                name, at = named
                alias = self._alias_at(at)
                if len(name.parts) > 1 or name.parts[0].lower() not in defined:
                    yield self._reference_at(name, at - 1, alias is not None, None)
                at = at if alias is None else alias
                if at >= len(self.tokens) or not self.tokens[at].is_symbol(","):
                    break
                at += 1

    def _at_table_query(self, at: int) -> bool:
        """Returns whether the query ``TABLE name`` begins at an index."""
        begins = at == 0 or self.tokens[at - 1].is_symbol("(") or self.tokens[at - 1].is_symbol(")")
        return self._is_word(at, "TABLE") and (begins or self._is_word(at - 1, *_SET_WORDS))

    def _is_definition(self, index: int) -> bool:
        behind = self._after_parentheses(index + 1)
        return self._is_word(behind, "AS") and behind + 1 < len(self.tokens) and self.tokens[behind + 1].is_symbol("(")

    def _name_at(self, at: int) -> tuple[Name, int] | None:
        cursor = TokenStream(self.source, self.tokens)
        cursor.at = at
        token = cursor.peek()
        if token is None or token.kind not in (Kind.WORD, Kind.QUOTED) or token.is_word("SELECT", "LATERAL", "VALUES"):
            return None
        name = cursor.name(most=9)
        return None if cursor.at_symbol("(") or len(name.parts) > 3 else (name, cursor.at)

    def _alias_at(self, at: int) -> int | None:
        """The index after an alias that begins at an index; None without an alias."""
        if self._is_word(at, "AS"):
            return self._after_parentheses(at + 2)
        if at < len(self.tokens) and (
            self.tokens[at].kind is Kind.QUOTED
            or (self.tokens[at].kind is Kind.WORD and self.tokens[at].text.upper() not in _NO_ALIAS)
        ):
            return self._after_parentheses(at + 1)
        return None


def _find_hints(source: SourceText, tokens: Sequence[Token]) -> tuple[tuple[Hint, ...], list[tuple[int, int]]]:
    """The hints with options, and the ranges of Spark's ``WITH (…)`` that sqlglot must not see."""
    hints, blanks = [], []
    for i, token in enumerate(tokens):
        if token.kind is Kind.HINT:
            hint = read_hint(source, token)
            if hint is not None:
                hints.append(Hint(token.start, token.end, hint))
        elif token.is_word("WITH") and i + 1 < len(tokens) and tokens[i + 1].is_symbol("("):
            # A common table expression has a name between WITH and the parenthesis.
            cursor = TokenStream(source, tokens)
            cursor.at = i + 1
            hints.append(Hint(token.start, 0, cursor.options()))
            end = tokens[cursor.at - 1].end
            hints[-1] = Hint(token.start, end, hints[-1].options)
            blanks.append((token.start, end))
    return tuple(hints), blanks


def _parse(source: SourceText, tokens: Sequence[Token]) -> tuple[exp.Expr | None, str | None]:
    """The tree of the blanked text, or the position of sqlglot's error."""
    if not any(token.is_word("FROM", "JOIN") for token in tokens):
        return None, None  # no table; a long VALUES is not worth parsing twice
    if any(a.is_symbol("|") and b.is_symbol(">") and a.end == b.start for a, b in pairwise(tokens)):
        return None, None  # Spark's pipe syntax: sqlglot turns it into another query, so its places would mislead
    pieces, at = [], source.start
    for token in tokens:
        text = "".join(" " if c.isspace() else c for c in token.text)
        text = text.replace("$", "_") if token.kind is Kind.WORD else text
        pieces += [" " * (token.start - at), text]
        at = token.end
    try:
        tree = parse_tree("".join(pieces))
    except (SqlglotError, RecursionError) as failure:
        offset = source.start
        if isinstance(failure, ParseError) and failure.errors and failure.errors[0].get("col"):
            problem = failure.errors[0]
            offset += int(problem["col"]) - len(problem.get("highlight") or "")
        return None, point_at(source.script, max(offset, source.start), "this query cannot be parsed from here")
    return (tree, None) if isinstance(tree, exp.Query) else (None, None)


def cte_of(table: exp.Table) -> exp.CTE | None:
    """The common table expression that a name refers to, None if it refers to a table.

    A name sees the expressions of every WITH around it, and inside a WITH only the earlier ones
    (and itself, when RECURSIVE).
    """
    if table.args.get("db") is not None or not isinstance(table.this, exp.Identifier):
        return None
    inside: exp.Expr = table
    while (outer := inside.parent) is not None:
        seen: list[exp.CTE] = []
        if isinstance(outer, exp.With):
            at = next(i for i, cte in enumerate(outer.expressions) if cte is inside)
            seen = outer.expressions[: at + 1 if outer.args.get("recursive") else at]
        elif isinstance(outer, exp.Query) and not isinstance(inside, exp.With):
            seen = outer.ctes
        for cte in seen:
            if cte.alias.lower() == table.name.lower():
                return cte
        inside = outer
    return None
