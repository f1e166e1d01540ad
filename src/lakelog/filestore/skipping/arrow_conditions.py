"""The part of an Arrow expression that can skip files: comparisons of columns with values that must all be true.

pyarrow shows an expression as text only, so the text is read. What is not understood is left out: the caller applies
the expression itself to the rows that remain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.skipping.predicate import Compare, In, IsNull, Predicate, conjunction

_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_QUOTED: Final = re.compile(_TEXT)
_COMPARED: Final = re.compile(rf"\((\w+) (==|<=|>=|<|>) ({_TEXT}|[^()\"]+)\)")
_NULL: Final = re.compile(r"is_null\((\w+), \{nan_is_null=false\}\)")
_LISTED: Final = re.compile(rf"is_in\((\w+), \{{value_set=\w+:(\[(?:\s|{_TEXT}|-?\d+|,)*\]), .*\}}\)", re.DOTALL)
_IF_VALID: Final = re.compile(r"if_else\(is_valid\(\w+\), (is_in\(.*\)), null\[bool\]\)", re.DOTALL)
_AND: Final = " and "


def skipping_part(expression: pc.Expression, schema: pa.Schema) -> Predicate | None:
    """A condition that is true for all rows for which an expression is, None if nothing of it is understood."""
    parts = (_predicate(part, schema) for part in _parts(str(expression)))
    return conjunction(part for part in parts if part is not None)


def _parts(text: str) -> Iterator[str]:
    """The parts of ``(a and b)``, each of which must be true."""
    parts = _split(text[1:-1]) if text.startswith("(") and text.endswith(")") else []
    if len(parts) < 2:
        yield text
    else:
        for part in parts:
            yield from _parts(part)


def _split(text: str) -> list[str]:
    """The parts of ``a and b`` outside of all parentheses and quotes; none if these do not match."""
    depth, start, at, parts = 0, 0, 0, list[str]()
    while at < len(text):
        if text[at] == '"':
            quoted = _QUOTED.match(text, at)
            if quoted is None:
                return []
            at = quoted.end()
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth < 0:
            return []
        if depth == 0 and text.startswith(_AND, at):
            parts.append(text[start:at])
            start = at + len(_AND)
        at += 1
    return [*parts, text[start:]]


def _predicate(text: str, schema: pa.Schema) -> Predicate | None:
    if (valid := _IF_VALID.fullmatch(text)) is not None:
        text = valid[1]
    if (null := _NULL.fullmatch(text)) is not None:
        return IsNull(null[1]) if null[1] in schema.names else None
    if (listed := _LISTED.fullmatch(text)) is not None:
        kind, values = _type_of(listed[1], schema), tuple(orjson.loads(listed[2]))
        return In(listed[1], values) if values and all(fits_exactly(value, kind) for value in values) else None
    if (compared := _COMPARED.fullmatch(text)) is not None:
        name, op, shown = compared.groups()
        kind = _type_of(name, schema)
        value = None if kind is None else _value(shown, kind)
        is_safe = fits_exactly(value, kind) and (not isinstance(value, float) or op in ("<", "<=", "=="))
        return Compare(name, "=" if op == "==" else op, value) if is_safe else None
    return None


def _type_of(name: str, schema: pa.Schema) -> pa.DataType | None:
    return schema.field(name).type if name in schema.names else None


def fits_exactly(value: Any, kind: pa.DataType | None) -> bool:
    """True if values of a column can be compared with a value as they are: no cast decides the result."""
    if kind is None or value is None or isinstance(value, bool):
        return False
    if isinstance(value, int):
        return bool(pa.types.is_integer(kind))
    if isinstance(value, float):
        return bool(pa.types.is_float64(kind)) and value - value == 0
    if isinstance(value, datetime):
        return bool(pa.types.is_timestamp(kind)) and (value.tzinfo is not None) == (kind.tz is not None)
    if isinstance(value, date):
        return bool(pa.types.is_date(kind))
    return isinstance(value, str) and _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _value(shown: str, kind: pa.DataType) -> Any:
    """The value of a literal for a column of a type; None if its text is not clear."""
    try:
        if pa.types.is_integer(kind):
            return int(shown)
        if pa.types.is_floating(kind):
            return float(shown)
        if _is_text(kind):
            return orjson.loads(shown) if shown.startswith('"') else None
        if pa.types.is_date(kind):
            return date.fromisoformat(shown)
        if pa.types.is_timestamp(kind) and shown.endswith("Z") == (kind.tz is not None):
            return datetime.fromisoformat(shown)
    except ValueError:
        return None
    return None
