"""Random JSON texts, as a VARIANT may hold them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
_DECIMAL = st.decimals(-(10**20), 10**20, places=7).map(lambda number: f"{number:f}")
_NUMBER = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.integers(-(10**38) + 1, 10**38 - 1).map(str),
    _DECIMAL,
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: f"{Decimal(number):e}"),
)
_LEAF = st.one_of(st.sampled_from(["null", "true", "false"]), _NUMBER, _TEXT.map(json.dumps))


def _array(parts: list[str]) -> str:
    return f"[{', '.join(parts)}]"


def _object(parts: dict[str, str]) -> str:
    return f"{{{', '.join(f'{json.dumps(name)}: {part}' for name, part in parts.items())}}}"


JSON_TEXTS: st.SearchStrategy[str] = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(_array), st.dictionaries(_TEXT, inner, max_size=5).map(_object)
    ),
    max_leaves=12,
)


def meaning(text: str) -> Any:
    """What a JSON text says: numbers without an exponent are exact."""

    def number(digits: str) -> Any:
        return float(digits) if "e" in digits.lower() else Decimal(digits)

    return json.loads(text, parse_float=number, parse_int=Decimal)
