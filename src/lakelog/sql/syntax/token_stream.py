"""Cursor over the tokens of one statement, which the parsers of all statements use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from lakelog.sql.syntax.lexer import Kind, Token, quoted_name, string_value, tokenize
from lakelog.sql.syntax.source_text import SourceText


@dataclass(frozen=True)
class Name:
    """A name of one to three parts, ``table``, ``db.table`` or ``catalog.db.table``, and its position."""

    parts: tuple[str, ...]
    start: int
    end: int

    def __str__(self) -> str:
        return ".".join(self.parts)

    @property
    def sql(self) -> str:
        """The name as Spark can parse it."""
        return ".".join(map(quoted_name, self.parts))


def part_value(token: Token) -> str:
    """The name in a WORD or a backticked token."""
    return token.text[1:-1].replace("``", "`") if token.kind is Kind.QUOTED else token.text


class TokenStream:
    """A position in the tokens of one statement. ``accept_*`` moves on only on a match, ``expect_*`` raises."""

    def __init__(self, source: SourceText, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tuple(tokens)
        self.at = 0

    @classmethod
    def over(cls, text: str) -> TokenStream:
        """A stream over a separate text, such as one within quotes."""
        return cls(SourceText(text, 0, len(text)), tuple(tokenize(text)))

    def peek(self, ahead: int = 0) -> Token | None:
        """The token at the position (or ``ahead`` of it), None after the end."""
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else None

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raises UnsupportedStatement at a token, by default the next one."""
        at_token = token or self.peek()
        raise self.source.error(at_token.start if at_token else self.source.end, message)

    def fail_expected(self, what: str) -> NoReturn:
        """Raises UnsupportedStatement: this was expected, that was found."""
        token = self.peek()
        token_text = "the end of the statement" if token is None else f"'{token.text[:40]}'"
        self.fail(f"expected {what}, found {token_text}")

    def at_words(self, *words: str) -> bool:
        """True if the next tokens are these keywords in this order."""
        return all((t := self.peek(i)) is not None and t.is_word(w) for i, w in enumerate(words))

    def accept_words(self, *words: str) -> bool:
        """Moves over these keywords if they come next."""
        is_next = self.at_words(*words)
        self.at += len(words) if is_next else 0
        return is_next

    def expect_words(self, *words: str) -> None:
        """Moves over these keywords or raises."""
        for word in words:
            if not self.accept_words(word):
                self.fail_expected(word)

    def at_symbol(self, symbol: str) -> bool:
        """True if this punctuation character comes next."""
        token = self.peek()
        return token is not None and token.is_symbol(symbol)

    def accept_symbol(self, symbol: str) -> bool:
        """Moves over this punctuation character if it comes next."""
        is_next = self.at_symbol(symbol)
        self.at += 1 if is_next else 0
        return is_next

    def expect_symbol(self, symbol: str, where: str = "") -> None:
        """Moves over this punctuation character or raises."""
        if not self.accept_symbol(symbol):
            self.fail_expected(f"'{symbol}'{where}")

    def expect_end(self) -> None:
        """Raises if something is left."""
        if self.peek() is not None:
            self.fail_expected("the end of the statement")

    def take(self) -> Token:
        """The next token, moved over; raises at the end."""
        token = self.peek()
        if token is None:
            self.fail_expected("more")
        self.at += 1
        return token

    def name_part(self, what: str = "a name") -> str:
        """Moves over one name, plain or in backticks."""
        token = self.peek()
        if token is None or token.kind not in (Kind.WORD, Kind.QUOTED):
            self.fail_expected(what)
        self.at += 1
        return part_value(token)

    def name(self, what: str = "a table name", most: int = 3) -> Name:
        """Moves over a dotted name of at most this many parts."""
        first = self.peek()
        parts = [self.name_part(what)]
        while self.accept_symbol("."):
            parts.append(self.name_part(what))
        start, end = first.start if first else 0, self.tokens[self.at - 1].end
        if len(parts) > most:
            self.fail(f"a name here has at most {most} parts, '{'.'.join(parts)}' has {len(parts)}", first)
        return Name(tuple(parts), start, end)

    def database(self) -> Name | None:
        """Moves over ``IN|FROM [catalog.]database`` if it comes next."""
        is_next = self.accept_words("IN") or self.accept_words("FROM")
        return self.name("a database name", most=2) if is_next else None

    def names_in_parentheses(self, what: str) -> tuple[str, ...]:
        """Moves over ``(a, b)``."""
        self.expect_symbol("(")
        out = self.names(what)
        self.expect_symbol(")", f" after {what}")
        return out

    def names(self, what: str) -> tuple[str, ...]:
        """Moves over ``a, b``."""
        out = [self.name_part(what)]
        while self.accept_symbol(","):
            out.append(self.name_part(what))
        return tuple(out)

    def at_text(self) -> bool:
        """True if a string comes next."""
        token = self.peek()
        return token is not None and token.kind is Kind.STRING

    def text_literal(self, what: str) -> str:
        """Moves over a string; neighbouring strings are joined, as in Spark."""
        token = self.peek()
        if token is None or token.kind is not Kind.STRING:
            self.fail_expected(what)
        out = ""
        while token is not None and token.kind is Kind.STRING:
            out += string_value(token)
            self.at += 1
            token = self.peek()
        return out

    def integer(self, what: str) -> int:
        token = self.peek()
        if token is None or token.kind is not Kind.NUMBER or not token.text.isdecimal():
            self.fail_expected(what)
        self.at += 1
        return int(token.text)

    def skip_group(self) -> None:
        """Moves over one token, or over a whole ``( … )``."""
        depth = 0
        while True:
            token = self.take()
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth <= 0:
                return

    def check_parentheses(self) -> None:
        """Raises at a parenthesis that is never closed or never opened."""
        opened: list[Token] = []
        for token in self.tokens:
            if token.is_symbol("("):
                opened.append(token)
            elif token.is_symbol(")"):
                if not opened:
                    self.fail("this ')' has no '(' before it", token)
                opened.pop()
        if opened:
            self.fail("this '(' is never closed", opened[-1])

    def check_commas(self) -> None:
        """Raises at a comma of a query before which, or after which, a value is missing."""
        for token, after in zip(self.tokens, [*self.tokens[1:], None], strict=True):
            if not token.is_symbol(","):
                continue
            if after is None or after.is_word("FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT"):
                self.fail("a value is missing after this ','", token)
            if after.is_symbol(",") or after.is_symbol(")"):
                self.fail(f"a value is missing before this '{after.text}'", after)

    def options(self) -> dict[str, str]:
        """Moves over ``('key' = 'value', …)``; keys quoted or dotted names, values text, numbers or booleans."""
        self.expect_symbol("(")
        out: dict[str, str] = {}
        while not self.accept_symbol(")"):
            at_token = self.peek()
            key = self.option_key()
            if key in out:
                self.fail(f"option '{key}' is given twice", at_token)
            self.accept_symbol("=")
            out[key] = self._option_value(key)
            if not self.at_symbol(")"):
                self.expect_symbol(",", f" or ')' after option '{key}'")
        return out

    def option_key(self) -> str:
        """Moves over the key of an option, in quotes or as a dotted name."""
        token = self.peek()
        if token is not None and token.kind is Kind.STRING:
            self.at += 1
            return string_value(token)
        parts = [self.name_part("an option key in quotes")]
        while self.at_symbol(".") or self.at_symbol("-"):
            parts.append(self.take().text)
            parts.append(self.name_part("the rest of the option key"))
        return "".join(parts)

    def _option_value(self, key: str) -> str:
        token = self.peek()
        sign = "-" if token is not None and token.is_symbol("-") else ""
        if sign:
            self.at += 1
            token = self.peek()
        if token is not None and (token.kind is Kind.NUMBER or (not sign and token.is_word("TRUE", "FALSE"))):
            self.at += 1
            return sign + token.text.lower()
        return self.text_literal(f"a value in quotes for option '{key}'")


def read_hint(source: SourceText, hint: Token) -> dict[str, str] | None:
    """The options of a hint ``/*+ OPTIONS('k'='v', …) */``; None for another hint (BROADCAST …), which is Spark's."""
    inner = TokenStream(source, tuple(tokenize(source.script, hint.start + 3, hint.end - 2)))
    if not inner.accept_words("OPTIONS"):
        return None
    options = inner.options()
    if inner.peek() is not None:
        inner.fail("a hint OPTIONS(…) must be alone: write other hints in their own /*+ … */")
    return options
