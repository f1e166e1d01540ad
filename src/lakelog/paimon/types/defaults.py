"""The default of a column: text in the schema file, a value wherever a written row has NULL (format sheet 3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidSchema
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.text_decimals import cast_text
from lakelog.paimon.types.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType

_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[(),]|[^\s'(),]+", re.DOTALL)


def default_text(field: DataField) -> str | None:
    """The text of the default, without single quotes around it; None for a column without one."""
    text = field.default_value
    return text[1:-1] if text is not None and re.fullmatch("'.*'", text, re.DOTALL) else text


def default_scalar(field: DataField) -> pa.Scalar | None:
    """The default as a value of the column's type; None for a column without one.

    The text may be in single quotes; that of a nested type is an expression of literals (``is_nested``). Raises
    InvalidSchema with column, text and type for any other text. TIMESTAMP WITH LOCAL TIME ZONE, whose text would need a
    zone, has no default.
    """
    text = default_text(field)
    if text is None:
        return None
    try:
        if not is_nested(field.type):
            return _atomic(text, field.type)
        return pa.scalar(_Literal(text).whole(field.type), arrow_type(field.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, TypeError, RecursionError):
        pass
    raise InvalidSchema(
        f"'{text}' cannot be the default of column '{field.name}' of type {field.type.to_json()}: write a value of "
        "this type as text, such as '0', '2024-01-31' or 'none', or array(…), map(…), named_struct(…) of such values. "
        "A time with a time zone has no default"
    )


def is_nested(kind: DataType) -> bool:
    """Whether the default of a type is an expression: ``array(1, 2)``, ``map('a', 1)``, ``named_struct('x', 1)``."""
    return not isinstance(kind, AtomicType)


def _atomic(text: str, kind: DataType) -> pa.Scalar:
    if isinstance(kind, AtomicType) and kind.root == "TIMESTAMP_LTZ":
        raise ValueError("the text has no zone")
    return cast_text(pa.array([text], pa.string()), arrow_type(kind))[0]


class _Literal:
    """A literal of a nested type, token by token. Raises ValueError for any other text."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        if _TOKEN.sub("", text).strip():
            raise ValueError("it has other signs than those of a value")
        self._at = 0

    def whole(self, kind: DataType) -> Any:
        """The value, if nothing follows it."""
        value = self._value(kind)
        if self._at != len(self._tokens):
            raise ValueError("there is more after the value")
        return value

    def _value(self, kind: DataType) -> Any:
        word = self._take()
        if word.upper() == "NULL":
            return None
        if isinstance(kind, AtomicType):
            if word.upper() in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
                word = self._take()
            is_quoted = word.startswith("'")
            return _atomic(_unquoted(word) if is_quoted else word, kind).as_py()
        self._expect("(")
        if isinstance(kind, ArrayType) and word.upper() == "ARRAY":
            return [self._value(kind.element) for _ in self._items()]
        if isinstance(kind, MapType) and word.upper() == "MAP":
            return [(self._value(kind.key), self._second(kind.value)) for _ in self._items()]
        if isinstance(kind, RowType) and word.upper() in ("NAMED_STRUCT", "STRUCT"):
            return self._struct(kind, word.upper() == "NAMED_STRUCT")
        raise ValueError(f"{word} is none of the type")

    def _struct(self, kind: RowType, is_named: bool) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for number, _ in enumerate(self._items()):
            field = kind.fields[min(number, len(kind.fields) - 1)]
            if is_named:
                name = _unquoted(self._take())
                self._expect(",")
                field = next((f for f in kind.fields if f.name.lower() == name.lower()), field)
                if field.name.lower() != name.lower():
                    raise ValueError(f"the struct has no field {name}")
            out[field.name] = self._value(field.type)
        if len(out) != len(kind.fields):
            raise ValueError("the struct has other fields")
        return out

    def _second(self, kind: DataType) -> Any:
        self._expect(",")
        return self._value(kind)

    def _items(self) -> Iterator[None]:
        """One item after the other, up to the closing parenthesis."""
        if self._tokens[self._at : self._at + 1] == [")"]:
            self._at += 1
            return
        while True:
            yield
            if self._take() == ")":
                return
            self._at -= 1
            self._expect(",")

    def _take(self) -> str:
        if self._at == len(self._tokens):
            raise ValueError("the value is cut")
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _expect(self, symbol: str) -> None:
        if (token := self._take()) != symbol:
            raise ValueError(f"{token} is in place of {symbol}")


def _unquoted(text: str) -> str:
    if not text.startswith("'"):
        raise ValueError(f"{text} is no text")
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text[1:-1], flags=re.DOTALL)
