"""Values of a query for DuckDB in the types that Spark gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlglot import exp

from lakelog.sql.embedded.types import (
    ANY,
    BIGINT,
    DATE,
    DOUBLE,
    NULL,
    OTHER,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    WHOLE,
    Kind,
    check_exact,
    decimal,
    unified,
)
from lakelog.state.spark_functions import (
    AVERAGE,
    INSTANT,
    NeedsSpark,  # fmt: skip
)

TIMES: Final = (DATE, TIMESTAMP_NTZ, TIMESTAMP)
_ISO: Final = re.compile(r"[1-9]\d{3}-\d\d-\d\d(?:[ T]\d\d:\d\d(?P<seconds>:\d\d(?:\.\d{1,6})?)?)?")
_WHOLE_TEXT: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER_TEXT: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|(?i:nan|[+-]?infinity)")
_ISO_DATE: Final = 10
_LONG: Final = 19
"""Digits from which DuckDB computes a DECIMAL with 128 bits."""
_MORE_DIGITS: Final = 4
"""Digits that the average of a DECIMAL has more than its values."""


class Part(NamedTuple):
    """A translated expression in its place, and its type."""

    node: exp.Expr
    kind: Kind


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of a function of DuckDB."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def as_kind(node: exp.Expr, kind: Kind) -> exp.Expr:
    """The value as a type."""
    return exp.Cast(this=node, to=kind.duckdb)


def cast_in_place(node: exp.Expr, kind: Kind) -> None:
    """Puts a cast around an expression."""
    place = exp.Cast(to=kind.duckdb)
    node.replace(place)
    place.set("this", node)


def roomy(kind: Kind, result: Kind) -> Kind:
    """A DECIMAL for arithmetic: DuckDB gives the result of two short ones no more than 18 digits."""
    return kind if result.digits < _LONG else Kind("DECIMAL", max(kind.digits, _LONG), kind.scale)


def whole_call(node: exp.Expr) -> exp.Expr:
    """An aggregate or window function with its FILTER and OVER."""
    while isinstance(node.parent, exp.Filter | exp.Window) and node.parent.this is node:
        node = node.parent
    return node


def as_time(node: exp.Expr, kind: Kind, goal: Kind) -> exp.Expr:
    """A date or time as another one, in the time zone of the session."""
    if kind == goal:
        return node
    if goal == TIMESTAMP:
        return call(INSTANT, as_kind(node, TIMESTAMP_NTZ) if kind == DATE else node)
    local = as_kind(node, TIMESTAMP_NTZ) if kind == TIMESTAMP else node
    return local if goal == TIMESTAMP_NTZ == kind else as_kind(local, goal)


def time_of(literal: exp.Literal, goal: Kind) -> exp.Expr:
    """A literal such as '2024-02-29 12:30:00' as a date or time. Raises NeedsSpark for other ways to write one."""
    text = literal.name
    match = _ISO.fullmatch(text)
    if match is None or (goal == DATE and len(text) != _ISO_DATE):
        raise NeedsSpark(f"'{text}' as a {goal}")
    if goal == DATE:
        return as_kind(literal, DATE)
    rest = " 00:00:00" if len(text) == _ISO_DATE else "" if match["seconds"] else ":00"
    return as_time(as_kind(exp.Literal.string(text + rest), TIMESTAMP_NTZ), TIMESTAMP_NTZ, goal)


def align(parts: Sequence[Part], what: str, in_pairs: bool = False) -> Kind:
    """Gives values that are compared, or of which one is the result, Spark's common type. Raises NeedsSpark.

    ``in_pairs`` says that Spark chooses a type for each pair of the first and another one.
    """
    kinds = {part.kind for part in parts} - {NULL, ANY}
    if OTHER in kinds and all(part.kind != ANY for part in parts):  # the key of a view may have it
        raise NeedsSpark(f"{what} of a nested or unknown type")
    if len(kinds) <= 1:
        return next(iter(kinds), NULL)
    texts = [part for part in parts if part.kind == STRING]
    if kinds - {STRING} <= set(TIMES):
        goal = TIMESTAMP if TIMESTAMP in kinds else TIMESTAMP_NTZ if TIMESTAMP_NTZ in kinds else DATE
        if not all(isinstance(part.node, exp.Literal) for part in texts):
            raise NeedsSpark(f"{what} of STRING and {goal}")
        for node, kind in parts:
            if isinstance(node, exp.Literal):
                node.replace(time_of(node, goal))
            elif kind in TIMES and kind != goal:
                place = exp.Paren()
                node.replace(place)
                place.set("this", as_time(node, kind, goal))
        return goal
    if texts and all(kind.is_number for kind in kinds - {STRING}):
        return _as_numbers(parts, what)
    if in_pairs and len(kinds) > 2 and {kind.root for kind in kinds} & {"FLOAT", "DOUBLE"}:
        raise NeedsSpark(f"{what} of {', '.join(sorted(map(str, kinds)))}")
    goal = unified([part.kind for part in parts if part.kind != ANY], what)
    for node, kind in parts:
        if kind not in (NULL, ANY, goal):
            cast_in_place(node, goal)
    return goal


def _as_numbers(parts: Sequence[Part], what: str) -> Kind:
    """Numbers and texts in the query that are numbers: BIGINT, or DOUBLE if one of the others is none."""
    numbers = unified([part.kind for part in parts if part.kind != STRING], what)
    goal, pattern = (BIGINT, _WHOLE_TEXT) if numbers.root in WHOLE else (DOUBLE, _NUMBER_TEXT)
    for node, kind in parts:
        if kind == STRING and not (isinstance(node, exp.Literal) and pattern.fullmatch(node.name.strip())):
            raise NeedsSpark(f"{what} of STRING and {numbers}")
        if kind not in (NULL, goal):
            if kind != STRING:
                check_cast(kind, goal)
            cast_in_place(node, goal)
    return goal


def target(node: exp.Cast) -> Kind:
    """The type that a cast names. Raises NeedsSpark."""
    to = node.to
    name, numbers = to.this.name, [int(part.name) for part in to.expressions if part.name.isdigit()]
    if name == "DECIMAL":
        return decimal(*(numbers + [10, 0][len(numbers) :])[:2])
    if name in ("TEXT", "DATE", "BOOLEAN", "FLOAT", "DOUBLE", *WHOLE) and not to.expressions:
        return Kind("STRING" if name == "TEXT" else name)
    match = {"TIMESTAMPTZ": TIMESTAMP, "TIMESTAMPLTZ": TIMESTAMP, "TIMESTAMPNTZ": TIMESTAMP_NTZ}.get(name)
    if match is None:
        raise NeedsSpark(f"a cast to {name}")
    return match


def check_cast(kind: Kind, goal: Kind) -> None:
    """Raises NeedsSpark for a cast whose results may differ."""
    if goal == DOUBLE:
        check_exact(kind)
    same = {
        "STRING": (*WHOLE, "STRING", "DATE", "BOOLEAN", "DECIMAL"),
        "DOUBLE": (*WHOLE, "FLOAT", "DOUBLE", "DECIMAL"),
        "FLOAT": ("FLOAT",),
        "DECIMAL": (*WHOLE, "DECIMAL"),
        "BOOLEAN": ("BOOLEAN",),
        **dict.fromkeys(WHOLE, (*WHOLE, "FLOAT", "DOUBLE", "DECIMAL", "STRING")),
    }
    if kind.root not in same.get(goal.root, ()):
        raise NeedsSpark(f"a cast of {kind} to {goal}")


def is_number_text(text: str) -> bool:
    """Returns whether a text in a query is a DOUBLE for both engines."""
    return _NUMBER_TEXT.fullmatch(text.strip()) is not None


def decimal_average(node: exp.Avg, kind: Kind) -> Kind:
    """Spark's average of a DECIMAL, whose last digit is rounded half up."""
    goal = decimal(kind.digits + _MORE_DIGITS, kind.scale + _MORE_DIGITS)
    decimal(kind.digits + 10 + _MORE_DIGITS, goal.scale)  # that of the sum
    outer = whole_call(node)
    calls = list[exp.Expr]()
    for function in (exp.Sum, exp.Count):
        if outer is node:
            calls.append(function(this=node.this.copy()))
            continue
        copy = outer.copy()
        inner = next(copy.find_all(exp.Avg))
        inner.replace(function(this=inner.this.copy()))
        calls.append(copy)
    total = as_kind(calls[0], Kind("DECIMAL", 38, goal.scale))
    unit = as_kind(exp.Literal.string(f"{10**-goal.scale:.{goal.scale}f}"), Kind("DECIMAL", goal.scale + 1, goal.scale))
    outer.replace(as_kind(call(AVERAGE, total, calls[1], unit), goal))
    return goal
