"""Predicates as people write them, for printing; not parsed again."""

from __future__ import annotations

from typing import Any, Final

from lakelog.filestore.skipping.predicate import And, Compare, In, IsNull, Not, Or, Predicate, StartsWith

_VALUES: Final = 5
"""Values of a list that are shown."""


def predicate_text(predicate: Predicate) -> str:
    """``id > 1 and name is null``."""
    match predicate:
        case And(parts):
            return " and ".join(map(_part, parts)) or "true"
        case Or(parts):
            return " or ".join(map(_part, parts)) or "false"
        case Not(part):
            return f"not {_part(part)}"
        case Compare(column, op, value):
            return f"{column} {op} {_value(value)}"
        case In(column, values):
            more = ", …" if len(values) > _VALUES else ""
            return f"{column} in ({', '.join(map(_value, values[:_VALUES]))}{more})"
        case IsNull(column, expected):
            return f"{column} is {'' if expected else 'not '}null"
        case StartsWith(column, prefix):
            return f"{column} starts with {prefix!r}"
    return str(predicate)


def _part(predicate: Predicate) -> str:
    text = predicate_text(predicate)
    return f"({text})" if isinstance(predicate, And | Or) else text


def _value(value: Any) -> str:
    return repr(value) if isinstance(value, str | bytes) else str(value)
