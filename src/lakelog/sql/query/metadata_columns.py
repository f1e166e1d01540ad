"""Metadata columns in a query, and ``input_file_name()``, which a read of a lakelog table replaces by one of them.

Spark hides metadata columns from ``*``, but the views of a query show them. So each star beside them excludes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from sqlglot import exp

from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.column_pruning import ColumnUse, relations_of
from lakelog.sql.query.references import QueryText, Reference, cte_of
from lakelog.sql.runtime.query_plan import FILE
from lakelog.sql.syntax.lexer import Kind, Token, quoted_name
from lakelog.sql.syntax.source_text import Edit
from lakelog.sql.syntax.token_stream import part_value
from lakelog.table.read.located_scan import FILE_PATH, METADATA_COLUMNS

_FUNCTION: Final = "INPUT_FILE_NAME"
_ADVICE: Final = f"read {FILE_PATH} in the SELECT whose FROM names the table"


class Read(Protocol):
    """A read of a table in a query."""

    @property
    def reference(self) -> Reference:
        """Its name in the query."""

    @property
    def schema(self) -> TableSchema:
        """The columns of the table."""


@dataclass(frozen=True)
class MetadataUse:
    """The metadata columns that a query uses: by the position of the table's name, and the edits of the query."""

    columns: dict[int, tuple[str, ...]] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)

    def of(self, read: Read) -> tuple[str, ...]:
        """The metadata columns of a read."""
        return self.columns.get(read.reference.name.start, ())


def metadata_use(query: QueryText, reads: Sequence[Read]) -> MetadataUse:
    """The metadata columns of reads of files. ``reads`` are those that may have some.

    Raises UnsupportedStatement for a use whose value would be wrong.
    """
    mentioned = _mentioned(query.tokens)
    calls = list(_calls(query.tokens))
    if not reads or not (mentioned or calls):
        return MetadataUse()
    if query.tree is None:
        start = calls[0].start if calls else min(mentioned.values())
        raise query.source.error(
            start, "metadata columns are not available in this form of a query: write SELECT … FROM"
        )
    nodes = {id(r.reference.node): r for r in reads if r.reference.node is not None}
    names = {at: {f.lower() for f in r.schema.field_names} for at, r in nodes.items()}
    use = ColumnUse(query.tree, {at: frozenset(own | mentioned.keys()) for at, own in names.items()}, cte_of)
    used: dict[int, list[str]] = {}
    for at, read in nodes.items():
        named = use.named(read.reference.node) if read.reference.node is not None else frozenset()
        used[at] = [c for c in METADATA_COLUMNS if c in mentioned and c in named and c not in names[at]]
    edits = []
    for token, call in _paired(query, calls):
        relation = _file_of_call(query, token, call, nodes)
        if relation is not None:
            used[id(relation)] = list(dict.fromkeys([*used[id(relation)], FILE_PATH]))
            edits.append(_call_edit(query, token, call, relation))
    edits += _star_edits(query, {at: columns for at, columns in used.items() if columns})
    return MetadataUse({nodes[at].reference.name.start: tuple(columns) for at, columns in used.items()}, edits)


def _mentioned(tokens: Sequence[Token]) -> dict[str, int]:
    """The metadata columns that occur in a text, with the position of each."""
    words = ((part_value(t).lower(), t.start) for t in tokens if t.kind in (Kind.WORD, Kind.QUOTED))
    return {word: start for word, start in words if word in METADATA_COLUMNS}


def _calls(tokens: Sequence[Token]) -> Iterator[Token]:
    for at, token in enumerate(tokens[:-1]):
        if token.is_word(_FUNCTION) and tokens[at + 1].is_symbol("("):
            yield token


def _paired(query: QueryText, calls: Sequence[Token]) -> Iterator[tuple[Token, exp.Anonymous]]:
    """The calls of users with their nodes."""
    assert query.tree is not None
    nodes = {query.start_of(n): n for n in query.tree.find_all(exp.Anonymous) if n.name.upper() == _FUNCTION}
    for token in calls:
        node = nodes.get(token.start)
        if node is None:
            raise query.source.error(token.start, f"input_file_name() cannot be read here: {_ADVICE}")
        if not (isinstance(node.parent, exp.Alias) and node.parent.alias == FILE):
            yield token, node


def _file_of_call(query: QueryText, token: Token, call: exp.Anonymous, nodes: dict[int, Read]) -> exp.Expr | None:
    """The only relation of the call's SELECT; None if it reads no table of the lake."""
    select = call.find_ancestor(exp.Select)
    relations = [] if select is None else [r for r in relations_of(select) if not isinstance(r, exp.Lateral)]
    if len(relations) == 1 and id(relations[0]) in nodes:
        return relations[0]
    foreign = (isinstance(r, exp.Table) and id(r) not in nodes and cte_of(r) is None for r in relations)
    if all(foreign):
        return None
    raise query.source.error(token.start, f"input_file_name() is the file of one table's rows: {_ADVICE}")


def _call_edit(query: QueryText, token: Token, call: exp.Anonymous, relation: exp.Expr) -> Edit:
    after = next(t for t in query.tokens if t.start > token.start and t.is_symbol(")"))
    text = f"{quoted_name(relation.alias_or_name)}.{quoted_name(FILE_PATH)}"
    shown = isinstance(call.parent, exp.Select) and any(call is e for e in call.parent.expressions)
    return Edit(token.start, after.end, f"{text} AS `input_file_name()`" if shown else text)


def _star_edits(query: QueryText, columns: dict[int, list[str]]) -> Iterator[Edit]:
    """Edits that exclude the metadata columns from each star of a SELECT with such a table."""
    assert query.tree is not None
    if not columns:
        return
    for star in query.tree.find_all(exp.Star):
        select = star.find_ancestor(exp.Select)
        if isinstance(star.parent, exp.Count) or not isinstance(select, exp.Select):
            continue
        owner = star.parent.table.lower() if isinstance(star.parent, exp.Column) else ""
        hidden = [
            f"{quoted_name(r.alias_or_name)}.{quoted_name(column)}"
            for r in relations_of(select)
            if id(r) in columns and owner in ("", r.alias_or_name.lower())
            for column in columns[id(r)]
        ]
        if not hidden:
            continue
        start, end = query.start_of(star), star.meta.get("end")
        natural = any(join.args.get("method") == "NATURAL" for join in select.args.get("joins") or ())
        if start is None or end is None or natural or any(star.args.values()):
            at = query.source.start if start is None else start
            raise query.source.error(
                at, "name the columns in place of this star, because the query also reads metadata columns"
            )
        behind = query.source.start + int(end) + 1
        yield Edit(behind, behind, f" EXCEPT ({', '.join(hidden)})")
