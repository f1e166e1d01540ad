"""Keywords of a statement, by which its class is chosen."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from lakelog.sql.syntax.lexer import Kind, Token

_VERBS: Final = ("SELECT", "INSERT", "FROM", "VALUES", "UPDATE", "DELETE", "MERGE")
_DESCRIBED: Final = ("HISTORY", "DETAIL", "DATABASE", "SCHEMA", "NAMESPACE")


def find_keywords(tokens: Sequence[Token], known: Collection[str]) -> str | None:
    """The longest of the known keywords at the start of the statement, after any WITH expressions; None without one."""
    if tokens[0].is_word("WITH"):
        verb = _verb_after_expressions(tokens)
        return "WITH" if verb in ("SELECT", "FROM", "VALUES", "") else verb if verb in known else None
    if tokens[0].is_word("ALTER"):
        for change in ("DROP", "ADD"):
            if _changes_partition(tokens, change):
                return f"ALTER TABLE {change} PARTITION"
        if _compacts(tokens):
            return "ALTER TABLE COMPACT"
        if reference := _changed_reference(tokens):
            return f"ALTER TABLE {reference}"
        if len(tokens) > 1 and tokens[1].is_word("TABLE"):
            return "ALTER TABLE"  # of a table that may be called tag
    if tokens[0].is_word("CREATE", "REPLACE") and (template := _template(tokens)):
        taken = f"{tokens[0].text.upper()} TABLE {template}"
        if taken in known:
            return taken
    words = [token.text.upper() for token in tokens[: max(len(keywords.split()) for keywords in known)]]
    is_name = len(tokens) == 2 or (len(tokens) > 2 and tokens[2].is_symbol("."))
    if words[0] in ("DESCRIBE", "DESC") and is_name and words[1] in _DESCRIBED:
        return words[0]  # a table of that name
    for length in range(len(words), 0, -1):
        if (keywords := " ".join(words[:length])) in known:
            return keywords
    return None


def _verb_after_expressions(tokens: Sequence[Token]) -> str:
    depth = 0
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_word(*_VERBS):
            return token.text.upper()
    return ""


def _changes_partition(tokens: Sequence[Token], change: str) -> bool:
    """Returns whether ``DROP|ADD [IF [NOT] EXISTS] PARTITION`` follows the table's name, but not Iceberg's FIELD."""
    words = [token.text.upper() if token.kind is Kind.WORD else "" for token in tokens]
    for at, word in enumerate(words):
        if word == change:
            behind = [w for w in words[at + 1 : at + 5] if w not in ("IF", "NOT", "EXISTS")]
            return behind[:1] == ["PARTITION"] and behind[1:2] != ["FIELD"]
    return False


def _compacts(tokens: Sequence[Token]) -> bool:
    """Returns whether ``[PARTITION (…)] COMPACT`` follows the table's name."""
    at = 3
    while at < len(tokens) and tokens[at].is_symbol("."):
        at += 2
    is_last = at == len(tokens) - 1 or (at < len(tokens) and tokens[at].is_word("PARTITION"))
    return is_last and tokens[-1].is_word("COMPACT") and not tokens[-2].is_symbol(".")


def _changed_reference(tokens: Sequence[Token]) -> str:
    """``TAG`` or ``BRANCH`` between a verb and a name; "" if it is the name of a column, as in DROP tag."""
    for at in range(3, len(tokens) - 1):
        token, before, after = tokens[at], tokens[at - 1], tokens[at + 1]
        verb = tokens[at - 3] if before.is_word("REPLACE") and tokens[at - 2].is_word("OR") else before
        named = after.kind in (Kind.WORD, Kind.QUOTED) and not after.is_word("TO")
        if token.is_word("TAG", "BRANCH") and verb.is_word("CREATE", "REPLACE", "DROP", "DELETE", "RENAME") and named:
            return token.text.upper()
    return ""


def _template(tokens: Sequence[Token]) -> str:
    """The source of the columns of CREATE TABLE: ``LIKE`` another table, ``AS`` a query, "" for its own text."""
    depth, table = 0, next((at for at, token in enumerate(tokens[:4]) if token.is_word("TABLE")), len(tokens))
    for at, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and at > table + 1 and token.kind is Kind.WORD:
            if token.is_word("LIKE"):
                return "LIKE"
            if token.is_word("SELECT") or (token.is_word("AS") and not tokens[at - 1].is_word("STORED")):
                return "AS"
    return ""
