"""Pieces of UPDATE, DELETE and MERGE that are taken over into a query."""

from __future__ import annotations

import pytest

from lakelog.errors import UnsupportedStatement
from lakelog.sql.dml.assignments import read_assignments
from lakelog.sql.syntax.fragments import DmlTarget, qualified, read_changed_table, read_fragment, relation_name
from lakelog.sql.syntax.lexer import tokenize
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import TokenStream


def cursor_of(text: str) -> TokenStream:
    return TokenStream(SourceText(text, 0, len(text)), tuple(tokenize(text)))


def table_of(text: str) -> DmlTarget:
    return read_changed_table(cursor_of(text), "SET")


@pytest.mark.parametrize(
    ("text", "bare", "want"),
    [
        ("a + b.c", None, "a + b.c"),
        ("a + b.c", "s", "s.a + b.c"),
        ("db.t.a > t.b and other.t.c", None, "t.a > t.b and other.t.c"),
        ("DB.T.a", "s", "T.a"),
        ("filter(xs, x -> x > lo)", "s", "filter(s.xs, x -> x > s.lo)"),
        ("filter(xs, (x, i) -> x > i and transform(ys, y -> y + x) is null)", "s", None),
        ("a in (select a from u where a > 1)", "s", "s.a in (select a from u where a > 1)"),
        ("`a b` || 'a' || \"a\"", "s t", "`s t`.`a b` || 'a' || \"a\""),
        ("count(*) + a", "s", "count(*) + s.a"),
        ("a\n -- a\n + /* a */ b", "s", "s.a\n -- a\n + /* a */ s.b"),
        ("not ~ understood ((", "s", "not ~ understood (("),
    ],
)
def test_bare_columns_get_a_name_and_databases_go(text, bare, want) -> None:
    if want is None:
        want = "filter(s.xs, (x, i) -> x > i and transform(s.ys, y -> y + x) is null)"
    assert qualified(text, table_of("db.t"), bare) == want


@pytest.mark.parametrize(
    ("text", "alias", "options"),
    [
        ("db.t SET", "t", {}),
        ("db.t AS x SET", "x", {}),
        ("t /*+ OPTIONS('emit.mode'='file') */ `the x` SET", "the x", {"emit.mode": "file"}),
        ("t x /*+ OPTIONS('emit.mode'='file') */ SET", "x", {"emit.mode": "file"}),
    ],
)
def test_the_changed_table_and_its_alias(text, alias, options) -> None:
    cursor = cursor_of(text)
    found = read_changed_table(cursor, "SET")
    assert (found.alias, dict(found.options)) == (alias, options) and cursor.at_words("SET")


def test_a_piece_ends_at_its_word_outside_of_parentheses_and_case() -> None:
    cursor = cursor_of("case when a then case when b then 1 end else (select 1 where x) end = 2 WHEN more")
    assert read_fragment(cursor, "a condition", "WHEN").endswith("end = 2") and cursor.at_words("WHEN")
    with pytest.raises(UnsupportedStatement, match="expected a value, found 'WHEN'"):
        read_fragment(cursor, "a value", "WHEN")


def test_assignments_end_at_commas_of_their_own() -> None:
    cursor = cursor_of("a = f(1, 2), x.`b c` = case when a = 1 then 1, end, db.t.d.e = 3 WHERE y")
    found = read_assignments(cursor, table_of("db.t x SET"), "WHERE")
    wanted = {("a",): "f(1, 2)", ("b c",): "case when a = 1 then 1, end", ("d", "e"): "3"}
    assert found == wanted and cursor.at_words("WHERE")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("db.u ON", "u"),
        ("db.u AS x ON", "x"),
        ("(select 1 as a) s ON", "s"),
        ("(values (1)) as s(a) ON", "s"),
        ("db.u /*+ OPTIONS('read.mode'='file') */ ON", "u"),
        ("(select 1) ON", None),
        ("db.u VERSION AS OF 1 ON", "u"),
        ("db.u for timestamp as of '2024-01-01' x ON", "x"),
        ("db.u TABLESAMPLE (1 ROWS) ON", "u"),
    ],
)
def test_the_name_of_a_relation(text, want) -> None:
    cursor = cursor_of(text)
    read_fragment(cursor, "a table", "ON")
    assert relation_name(cursor, 0) == want
