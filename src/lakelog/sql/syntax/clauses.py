"""Clauses of several statements: options as a hint, ``PARTITION (…)``, and unsupported ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import tzinfo

from lakelog.errors import InvalidSchema, did_you_mean
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.syntax.lexer import Kind
from lakelog.sql.syntax.token_stream import TokenStream, read_hint
from lakelog.table.model.partition_selection import partition_text

LOCATION_RULE = "a lakelog table is in the directory of its database in the warehouse"
SORT_RULE = (
    "rows without a key are sorted by OPTIMIZE … ZORDER BY or CALL sys.compact(order_strategy => …), others by key"
)
"""The message for unsupported clauses of other systems in several statements."""

_TYPES_OF_LITERALS = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_NUMBER_SUFFIX = re.compile(r"(?<=\d)(?:bd|[lsydf])$")


@dataclass(frozen=True)
class PartitionClause:
    """``PARTITION (a = 'x', b)``: columns with a value (as text, None for NULL), and columns without."""

    values: tuple[tuple[str, str | None], ...]
    open: tuple[str, ...] = ()

    def own_values(self, schema: TableSchema, table: object, zone: tzinfo | None) -> dict[str, str | None]:
        """The values by the table's spelling of the columns; times without a zone are those of ``zone``.

        Raises InvalidSchema for other than partition columns.
        """
        by_fold = {name.lower(): name for name in schema.partition_keys}
        for name in (*(n for n, _ in self.values), *self.open):
            if name.lower() not in by_fold:
                keys = ", ".join(schema.partition_keys) or "none"
                near = did_you_mean(name, schema.partition_keys)
                raise InvalidSchema(
                    f"'{name}' is not a partition column of table '{table}'{near or '.'} Its partition columns: {keys}"
                )
        pairs = ((by_fold[name.lower()], value) for name, value in self.values)
        return {name: partition_text(schema, name, value, zone) for name, value in pairs}


def read_partition(cursor: TokenStream, must_have_values: bool) -> PartitionClause | None:
    """Reads ``PARTITION (…)``; None if the next token is another one. Raises UnsupportedStatement."""
    if not cursor.accept_words("PARTITION"):
        return None
    cursor.expect_symbol("(")
    values: dict[str, str | None] = {}
    names: list[str] = []
    while not names or cursor.accept_symbol(","):
        start_token = cursor.peek()
        name = cursor.name_part("a partition column")
        if name.lower() in names:
            cursor.fail(f"column '{name}' is named twice", start_token)
        names.append(name.lower())
        if cursor.accept_symbol("="):
            values[name] = _value(cursor)
        elif must_have_values:
            cursor.fail_expected("'=' and a value")
    cursor.expect_symbol(")", " after the partition columns")
    named = {name.lower() for name in values}
    return PartitionClause(tuple(values.items()), tuple(name for name in names if name not in named))


def _value(cursor: TokenStream) -> str | None:
    if cursor.accept_words("NULL"):
        return None
    if not cursor.at_text() and any(cursor.at_words(word) for word in _TYPES_OF_LITERALS):
        cursor.take()
        return cursor.text_literal("a value in quotes")
    sign = "-" if cursor.accept_symbol("-") else ""
    token = cursor.peek()
    if token is not None and (token.kind is Kind.NUMBER or (not sign and token.is_word("TRUE", "FALSE"))):
        cursor.take()
        return sign + _NUMBER_SUFFIX.sub("", token.text.lower())
    return cursor.text_literal("a value")


def read_options(cursor: TokenStream) -> dict[str, str]:
    """Reads a hint ``/*+ OPTIONS(…) */`` or ``WITH (…)``; {} if neither is next."""
    token = cursor.peek()
    if token is not None and token.kind is Kind.HINT:
        hint = read_hint(cursor.source, token)
        if hint is None:
            cursor.fail("only a hint OPTIONS('key'='value', …) is allowed here", token)
        cursor.take()
        return hint
    follows = cursor.peek(1)
    if cursor.at_words("WITH") and follows is not None and follows.is_symbol("("):
        cursor.take()
        return cursor.options()
    return {}
