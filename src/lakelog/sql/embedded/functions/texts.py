"""Functions of texts that DuckDB computes with Spark's result and type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from lakelog.sql.embedded.casts import as_kind, call, cast_in_place
from lakelog.sql.embedded.functions.translation import Methods, Translation, whole_literal
from lakelog.sql.embedded.types import BOOLEAN, INT, STRING, WHOLE, Kind
from lakelog.state.spark_functions import LOWER, UPPER, NeedsSpark

TEXT_TESTS: Final[Mapping[type[exp.Expr], str]] = {
    exp.StartsWith: "starts_with",
    exp.EndsWith: "ends_with",
    exp.Contains: "contains",
}
_PATTERN: Final = re.compile(
    r"\^?(?:[A-Za-z0-9 _,:;@#%/<>=!~'\"&-]|\\[.+*?()|\[\]{}^$/-]|\[[A-Za-z0-9 _-]+\]|\.|[()|*+?])*"
)
"""Regular expressions with one meaning in Java and in RE2."""


class Texts(Translation):
    """The translation of functions of texts."""

    def like(self, node: exp.Like) -> Kind:
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise NeedsSpark("LIKE with a computed pattern")
        has_escape = "\\" in pattern.name
        if has_escape and not re.fullmatch(r"([^\\]|\\[\\%_])*", pattern.name, re.DOTALL):
            raise NeedsSpark("LIKE with this escape")
        self._texts([node.this], node)
        if has_escape:
            copy = exp.Like(this=node.this, expression=node.expression, negate=node.args.get("negate"))
            node.replace(exp.Paren(this=exp.Escape(this=copy, expression=exp.Literal.string("\\"))))
        return BOOLEAN

    def concat(self, node: exp.Expr) -> Kind:
        """Texts, or numbers and dates as texts; NULL if one of them is."""
        parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
        for part, kind in self._parts(parts):
            if kind.root not in (*WHOLE, "STRING", "DATE", "NULL"):
                raise NeedsSpark(f"concat of {kind}")
            cast_in_place(part, STRING)
        if isinstance(node, exp.Concat):
            texts = node.expressions
            joined = texts[0]
            for text in texts[1:]:
                joined = exp.DPipe(this=joined, expression=text)
            node.replace(exp.Paren(this=joined))
        return STRING

    def joined(self, node: exp.ConcatWs) -> Kind:
        self._texts(node.expressions, node)
        return STRING

    def text_test(self, node: exp.Expr) -> Kind:
        self._texts([node.this, node.expression], node)
        node.replace(call(TEXT_TESTS[type(node)], node.this, node.expression))
        return BOOLEAN

    def length(self, node: exp.Length) -> Kind:
        self._texts([node.this], node)
        node.replace(as_kind(call("length", node.this), INT))
        return INT

    def substring(self, node: exp.Substring) -> Kind:
        bounds = [part for part in (node.args.get("start"), node.args.get("length")) if part is not None]
        if not all(isinstance(b, exp.Literal) and b.name.isdigit() for b in bounds) or not int(bounds[0].name):
            raise NeedsSpark("substring with a computed place")
        self._texts([node.this], node)
        node.replace(call("substring", node.this, *bounds))
        return STRING

    def trim(self, node: exp.Trim) -> Kind:
        if any(value for part, value in node.args.items() if part != "this"):
            raise NeedsSpark("trim of other characters than spaces")
        self._texts([node.this], node)
        node.replace(call("trim", node.this, exp.Literal.string(" ")))
        return STRING

    def changed_case(self, node: exp.Upper | exp.Lower) -> Kind:
        self._texts([node.this], node)
        node.replace(call(UPPER if isinstance(node, exp.Upper) else LOWER, node.this))
        return STRING

    def position(self, node: exp.StrPosition) -> Kind:
        if any(node.args.get(name) is not None for name in ("position", "occurrence", "clamp_position")):
            raise NeedsSpark("a position after a start")
        self._texts([node.this, node.args["substr"]], node)
        node.replace(as_kind(call("instr", node.this, node.args["substr"]), INT))
        return INT

    def replaced(self, node: exp.Replace) -> Kind:
        other = node.args.get("replacement")
        parts = [node.this, node.expression, *([] if other is None else [other])]
        self._texts(parts, node)
        texts = [node.this, node.expression, node.args.get("replacement") or exp.Literal.string("")]
        node.replace(call("replace", *texts))
        return STRING

    def side(self, node: exp.Left | exp.Right) -> Kind:
        count = whole_literal(node.expression)
        if count is None or count < 0:
            raise NeedsSpark(f"{node.key} with a computed length")
        self._texts([node.this], node)
        return STRING

    def padded(self, node: exp.Pad) -> Kind:
        count, fill = whole_literal(node.expression), node.args.get("fill_pattern") or exp.Literal.string(" ")
        if count is None or count < 0 or not isinstance(fill, exp.Literal) or not fill.name:
            raise NeedsSpark("a padding with a computed length")
        self._texts([node.this], node)
        node.replace(call("lpad" if node.args.get("is_left") else "rpad", node.this, exp.Literal.number(count), fill))
        return STRING

    def matches(self, node: exp.RegexpLike) -> Kind:
        _check_pattern(node.expression, node)
        self._texts([node.this], node)
        node.replace(call("regexp_matches", node.this, node.expression))
        return BOOLEAN

    def replaced_pattern(self, node: exp.RegexpReplace) -> Kind:
        other = node.args.get("replacement")
        if not isinstance(other, exp.Literal) or {"\\", "$"} & set(other.name) or node.args.get("position"):
            raise NeedsSpark("regexp_replace with groups")
        _check_pattern(node.expression, node)
        self._texts([node.this], node)
        node.replace(call("regexp_replace", node.this, node.expression, other, exp.Literal.string("g")))
        return STRING


def _check_pattern(node: exp.Expr, outer: exp.Expr) -> None:
    """Raises NeedsSpark for a regular expression that Java and RE2 may read in different ways."""
    if not isinstance(node, exp.Literal) or not node.is_string or not _PATTERN.fullmatch(node.name):
        raise NeedsSpark(f"{outer.key} with this pattern")


TEXTS: Final[Methods] = (
    ((exp.Like,), Texts.like),
    ((exp.ConcatWs,), Texts.joined),
    ((exp.DPipe, exp.Concat), Texts.concat),
    (tuple(TEXT_TESTS), Texts.text_test),
    ((exp.Length,), Texts.length),
    ((exp.Substring,), Texts.substring),
    ((exp.Trim,), Texts.trim),
    ((exp.Upper, exp.Lower), Texts.changed_case),
    ((exp.StrPosition,), Texts.position),
    ((exp.Replace,), Texts.replaced),
    ((exp.Left, exp.Right), Texts.side),
    ((exp.Pad,), Texts.padded),
    ((exp.RegexpLike,), Texts.matches),
    ((exp.RegexpReplace,), Texts.replaced_pattern),
)
