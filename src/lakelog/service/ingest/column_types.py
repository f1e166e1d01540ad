"""PostgreSQL's types as column types, and its texts as Arrow values. Pure.

A copy (``COPY … (FORMAT csv)``) and the changes (``pgoutput``) both have values as text, so one conversion serves both.
Each is exact: a value that the column cannot hold is an error. A type without an exact counterpart is text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema
from lakelog.paimon.types.text_decimals import cast_text

_PLAIN: Final[dict[int, pa.DataType]] = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", tz="UTC"),
}
"""Id of a built-in type → the Arrow type with the same values."""
_NUMERIC: Final = 1700
_TIME: Final = 1083
_MOST_DIGITS: Final = 38
_SHOWN: Final = 60


@dataclass(frozen=True)
class TypeInfo:
    """A type as the catalog has it: kind (b, d, e …), base type of a domain, and type of an array's elements (or 0)."""

    kind: str
    base: int
    base_modifier: int
    element: int


Catalog = Callable[[int], TypeInfo]
"""Id of a type → its entry in the catalog."""


def arrow_type_of(type_id: int, modifier: int, catalog: Catalog) -> pa.DataType:
    """The Arrow type of a column: text for every type that has no exact counterpart."""
    plain = _PLAIN.get(type_id)
    if plain is not None:
        return plain
    if type_id == _NUMERIC:
        return _decimal(modifier)
    if type_id == _TIME:  # microseconds by default, and TIME has milliseconds
        return pa.time32("ms") if 0 <= modifier <= 3 else pa.string()
    info = catalog(type_id)
    if info.kind == "d":
        return arrow_type_of(info.base, info.base_modifier if modifier < 0 else modifier, catalog)
    if info.element:
        return pa.list_(arrow_type_of(info.element, modifier, catalog))
    return pa.string()


def _decimal(modifier: int) -> pa.DataType:
    if modifier < 0:
        return pa.string()
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    return pa.decimal128(precision, scale) if precision <= _MOST_DIGITS and 0 <= scale <= precision else pa.string()


def from_text(values: pa.Array, kind: pa.DataType, column: str) -> pa.Array:
    """PostgreSQL's texts as values. Raises InvalidSchema with the first text that the type cannot hold."""
    try:
        return _convert(values, kind)
    except (pa.ArrowInvalid, ValueError, OverflowError):
        for value in values.drop_null():
            try:
                _convert(pa.array([value]), kind)
            except (pa.ArrowInvalid, ValueError, OverflowError) as why:
                text = value.as_py()
                shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
                raise InvalidSchema(
                    f"column '{column}' has the value '{shown}', which a column of type {kind} cannot hold: change the "
                    "value in the source, or make the column text there"
                ) from why
        raise


def _convert(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        return values
    if pa.types.is_boolean(kind):
        return pc.equal(values, "t")
    if pa.types.is_binary(kind):
        texts = values.to_pylist()
        return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in texts], pa.binary())
    if pa.types.is_time(kind):
        return pc.binary_join_element_wise("1970-01-01", values, " ").cast(pa.timestamp("ms")).cast(kind)
    if pa.types.is_list(kind):
        return _lists(values.to_pylist(), kind)
    return cast_text(values, kind)


def _lists(texts: Sequence[str | None], kind: pa.ListType) -> pa.Array:
    offsets: list[int | None] = []
    elements: list[str | None] = []
    for text in texts:
        if text is None:
            offsets.append(None)
        else:
            offsets.append(len(elements))
            elements += array_elements(text)
    values = _convert(pa.array(elements, pa.string()), kind.value_type)
    if not texts:
        return pa.array([], kind)
    return pa.ListArray.from_arrays(pa.array([*offsets, len(elements)], pa.int32()), values, type=kind)


def array_elements(text: str) -> list[str | None]:
    """The elements of PostgreSQL's text of an array. Raises ValueError for more than one dimension."""
    start = text.index("{")  # bounds may come first: [0:2]={1,2,3}
    inner = text[start + 1 : -1]
    if not inner:
        return []
    if '"' not in inner and "\\" not in inner:
        if "{" in inner:
            raise ValueError("the array has more than one dimension")
        return [None if part == "NULL" else part for part in inner.split(",")]
    return _quoted_elements(inner)


def _quoted_elements(inner: str) -> list[str | None]:
    out: list[str | None] = []
    at, part, was_quoted, is_quoted = 0, list[str](), False, False
    while at < len(inner):
        char = inner[at]
        if char == "\\":
            at += 1
            part.append(inner[at])
        elif char == '"':
            is_quoted, was_quoted = not is_quoted, True
        elif is_quoted:
            part.append(char)
        elif char == "{":
            raise ValueError("the array has more than one dimension")
        elif char == ",":
            out.append(_element(part, was_quoted))
            part, was_quoted = [], False
        else:
            part.append(char)
        at += 1
    return [*out, _element(part, was_quoted)]


def _element(part: list[str], was_quoted: bool) -> str | None:
    text = "".join(part)
    return None if text == "NULL" and not was_quoted else text


def widens(old: pa.DataType, new: pa.DataType) -> bool:
    """True if every value of the old type is one of the new type, and equal to it."""
    if pa.types.is_signed_integer(old) and pa.types.is_signed_integer(new):
        return bool(old.bit_width <= new.bit_width)
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale)
    return (old, new) == (pa.float32(), pa.float64())
