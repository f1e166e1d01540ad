"""Parser of a CHECK constraint, in ALTER TABLE and in CREATE TABLE."""

from __future__ import annotations

from lakelog.options.constraints import ACTIONS, CHECK_PREFIX, Constraint
from lakelog.sql.syntax.token_stream import TokenStream


def read_check(cursor: TokenStream, name: str) -> Constraint:
    """``CHECK (condition) [ON VIOLATION FAIL|REJECT|WARN] [NOT VALID]``, with the name of the constraint."""
    cursor.expect_words("CHECK")
    first = cursor.peek()
    cursor.expect_symbol("(")
    cursor.at -= 1
    cursor.skip_group()
    last = cursor.tokens[cursor.at - 1]
    assert first is not None
    condition = cursor.source.script[first.end : last.start].strip()
    action = ACTIONS[0]
    if cursor.accept_words("ON", "VIOLATION"):
        token = cursor.peek()
        if token is None or token.text.lower() not in ACTIONS:
            cursor.fail_expected(f"{', '.join(ACTIONS).upper()} after ON VIOLATION")
        action = cursor.take().text.lower()
    return Constraint(name, condition, action, is_valid=not cursor.accept_words("NOT", "VALID"))


def at_check(cursor: TokenStream) -> bool:
    """True before a CHECK constraint, False before a column of this name."""
    token = cursor.peek(1)
    return cursor.at_words("CHECK") and token is not None and token.is_symbol("(")


def with_check(
    cursor: TokenStream, options: tuple[tuple[str, str], ...], name: str = "", column: str = ""
) -> tuple[tuple[str, str], ...]:
    """The options of a new table with the constraint that comes next.

    Without a ``name`` it is named as in PostgreSQL: ``check``, or ``v_check`` if it follows ``column`` v, and a number
    if that is taken.
    """
    keys, start_token = {key for key, _ in options}, cursor.peek()
    chosen, number = name or "_".join(filter(None, (column, "check"))), 0
    if name and f"{CHECK_PREFIX}{name}" in keys:
        cursor.fail(f"the table has a constraint '{name}' already: use another name", start_token)
    first = chosen
    while f"{CHECK_PREFIX}{chosen}" in keys:
        number += 1
        chosen = f"{first}{number}"
    return *options, *read_check(cursor, chosen).to_options().items()
