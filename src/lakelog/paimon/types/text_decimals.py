"""Decimals from text. Arrow's cast is not used for text that it reads beyond its table of powers of ten: such a text
ends the process or becomes a wrong number.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

MOST_DIGITS: Final = 76
"""Digits of Arrow's longest decimal; a text with more of them is no decimal here, whatever they are."""

_ODD: Final = r"[eE]|\.[0-9]{38}|[0-9]{39}|[0-9.]{77}"
"""An exponent, or more digits than the table has powers."""
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?", re.ASCII)
_EXACT: Final = Context(prec=2 * MOST_DIGITS, traps=[InvalidOperation])


def decimals_from_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The numbers in text as decimals of this type. Raises ArrowInvalid for any other text, and for other digits."""
    if not pc.any(pc.match_substring_regex(texts, _ODD)).as_py():
        return pc.cast(texts, kind)
    return pa.array([None if text is None else _decimal(text, kind) for text in texts.to_pylist()], kind)


def cast_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text as values of a type, as Arrow casts it. Raises ArrowInvalid."""
    return decimals_from_text(texts, kind) if pa.types.is_decimal(kind) else pc.cast(texts, kind)


def _decimal(text: str, kind: pa.DataType) -> Decimal:
    digits = sum(map(str.isdigit, text.partition("e")[0].partition("E")[0])) if len(text) < 1_000 else len(text)
    if digits > MOST_DIGITS:
        raise pa.ArrowInvalid(f"a number of {digits} digits is too long: a decimal has at most {MOST_DIGITS}")
    if not _NUMBER.fullmatch(text):
        raise pa.ArrowInvalid(f"{text!r} is not a decimal number")
    number = Decimal(text)
    try:
        exact = number.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    except InvalidOperation:
        exact = None
    if exact is None or exact != number or exact.adjusted() >= kind.precision - kind.scale:
        raise pa.ArrowInvalid(f"{text!r} does not fit {kind}")
    return exact
