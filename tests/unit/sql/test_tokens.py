from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import UnsupportedStatement
from lakelog.sql.parse import parse_script
from lakelog.sql.syntax.lexer import Kind, quoted_name, quoted_text, string_value, tokenize
from lakelog.sql.syntax.source_text import point_at


def kinds(text: str) -> list[tuple[Kind, str]]:
    return [(t.kind, t.text) for t in tokenize(text)]


def test_comments_are_skipped_and_a_hint_is_one_token() -> None:
    assert kinds("a -- b\n/* c /* d */ ' */ e /*+ OPTIONS('*/'='x') */") == [
        (Kind.WORD, "a"),
        (Kind.WORD, "e"),
        (Kind.HINT, "/*+ OPTIONS('*/'='x') */"),
    ]


@pytest.mark.parametrize("number", ["1", "1.5", "1e-3", "10L", "1.5BD", "2e10"])
def test_a_number_is_one_token(number: str) -> None:
    assert kinds(number) == [(Kind.NUMBER, number)]


def test_names_may_begin_with_digits_and_hold_dollars_and_chinese() -> None:
    assert kinds("2024_sales t$snapshots 表 `a``b`") == [
        (Kind.WORD, "2024_sales"),
        (Kind.WORD, "t$snapshots"),
        (Kind.WORD, "表"),
        (Kind.QUOTED, "`a``b`"),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ('"a\'b"', "a'b"),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r"'a\\b\n\%'", "a\\b\n\\%"),
        (r"r'a\n'", r"a\n"),
        ("''", ""),
    ],
)
def test_a_string_has_the_value_it_has_in_spark(text: str, value: str) -> None:
    assert [string_value(t) for t in tokenize(text)] == [value]


@given(st.text(st.characters(blacklist_characters="\r", blacklist_categories=("Cs",))))
def test_a_quoted_text_reads_back(text: str) -> None:
    assert [string_value(t) for t in tokenize(quoted_text(text))] == [text]


@given(st.text(min_size=1))
def test_a_quoted_name_is_one_token(name: str) -> None:
    assert len(list(tokenize(quoted_name(name)))) == 1


@given(st.text())
def test_tokens_stand_where_they_say_whatever_the_text_is(text: str) -> None:
    try:
        tokens = list(tokenize(text))
    except UnsupportedStatement:
        return
    assert all(text[t.start : t.end] == t.text != "" for t in tokens)
    assert all(a.end <= b.start for a, b in zip(tokens, tokens[1:], strict=False))


@pytest.mark.parametrize("text", ["'a", '"a', "`a", "/* a", "/*+ a", "r'a", "/* /* */"])
def test_what_is_not_closed_is_named_at_its_beginning(text: str) -> None:
    with pytest.raises(UnsupportedStatement, match=r"line 2, column 3: this .* is not closed"):
        list(tokenize(f"x\n  {text}"))


def test_the_caret_is_below_the_error_position() -> None:
    assert point_at("one\n\t二 x", 7, "here") == "line 2, column 4: here\n\t二 x\n\t   ^"
    assert point_at("one", 99, "end") == "line 1, column 4: end\none\n   ^"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("with ('s3.secret-key' = 'hush', 'a' = 'b')", "with ('s3.secret-key' = '****', 'a' = 'b')"),
        ("with ('catalog.uri'='x://u:p@h' warehouse = 'w')", "with ('catalog.uri'='*********' warehouse = 'w')"),
        ('("properties.sasl.password" "it\'s", b = 1)', '("properties.sasl.password" "****", b = 1)'),
        ("(s3.access-key = 'a\\'b''c', 'd' = 'e')", "(s3.access-key = '*******', 'd' = 'e')"),
        ("('hadoop.token' = 'never closed", "('hadoop.token' = '************"),
        ("select 'catalog.uri', 'shown' from t", "select 'catalog.uri', 'shown' from t"),
    ],
)
def test_an_error_points_into_a_line_without_its_secrets(line: str, shown: str) -> None:
    assert point_at(line, 3, "here") == f"line 1, column 4: here\n{shown}\n   ^"


def test_a_text_that_is_never_closed_hides_its_secret() -> None:
    with pytest.raises(UnsupportedStatement) as raised:
        parse_script("create catalog c with ('warehouse' = 'w', 'catalog.uri' = 'hush)")
    assert "hush" not in str(raised.value)
