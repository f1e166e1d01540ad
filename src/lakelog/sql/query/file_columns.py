"""The data file of a row in a query: ``input_file_name()``, and Apache Paimon's metadata columns.

A read of a table that needs them becomes a read of its system table ``$file_rows``, which has them as columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.references import QueryText, Reference, cte_of
from lakelog.sql.syntax.lexer import Kind, Token, quoted_name
from lakelog.sql.syntax.source_text import Edit
from lakelog.table.system.rows.file_rows import FILE_PATH, METADATA_COLUMNS

VIEW: Final = "$file_rows"
_FUNCTION: Final = "INPUT_FILE_NAME"


@dataclass(frozen=True)
class FileColumns:
    """The use of files in a query: of the function, and of metadata columns."""

    calls: tuple[tuple[int, int], ...]
    stars: tuple[tuple[Token, bool], ...]
    """``*`` in select lists, and whether a name stands before it."""

    @classmethod
    def read(cls, query: QueryText) -> FileColumns | None:
        """The use of files in a query; None if it does not use them.

        In a query over several relations, ``input_file_name()`` stays Spark's.
        """
        tokens = query.tokens
        names = {token.text.strip("`").lower() for token in tokens if token.kind in (Kind.WORD, Kind.QUOTED)}
        columns = not names.isdisjoint(METADATA_COLUMNS)
        calls = [
            (token.start, tokens[at + 2].end)
            for at, token in enumerate(tokens[:-2])
            if token.is_word(_FUNCTION) and tokens[at + 1].is_symbol("(") and tokens[at + 2].is_symbol(")")
        ]
        if query.tree is None or not (columns or calls):
            return None
        tables = [node for node in query.tree.find_all(exp.Table) if cte_of(node) is None]
        if len(tables) > 1 and not columns:
            return None
        found = cls(tuple(calls) if len(tables) == 1 else (), tuple(_stars(tokens)))
        if found.stars and len(tables) > 1:
            raise query.source.error(
                found.stars[0][0].start, "a query over several tables with columns of their files names all its columns"
            )
        return found

    def edits(self, reference: Reference, schema: TableSchema) -> list[Edit]:
        """The changes of the text: the column instead of the function, the table's columns instead of ``*``."""
        assert reference.node is not None
        alias = quoted_name(reference.node.alias_or_name)
        path = f"coalesce({alias}.{FILE_PATH}, '')"
        columns = [quoted_name(name) for name in schema.field_names]
        edits = [Edit(start, end, path) for start, end in self.calls]
        for star, is_qualified in self.stars:
            first = columns[0] if is_qualified else f"{alias}.{columns[0]}"
            edits.append(Edit(star.start, star.end, ", ".join([first, *(f"{alias}.{c}" for c in columns[1:])])))
        return edits


def _stars(tokens: tuple[Token, ...]) -> list[tuple[Token, bool]]:
    """The ``*`` of select lists, not those of a product or of count(*)."""
    found = []
    for before, token in zip(tokens, tokens[1:], strict=False):
        begins = before.is_word("SELECT", "DISTINCT", "ALL") or before.is_symbol(",") or before.is_symbol(".")
        if token.is_symbol("*") and begins:
            found.append((token, before.is_symbol(".")))
    return found
