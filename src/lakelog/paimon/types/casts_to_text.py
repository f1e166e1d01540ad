"""Values as text, spelled as Apache Paimon's casts spell them, which is as Java does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.paimon.types.arrow import time_unit
from lakelog.paimon.types.casts_from_text import by_value
from lakelog.paimon.types.types import ArrayType, AtomicType, DataType, MapType, RowType

ToText = Callable[[pa.Array, DataType], pa.Array]

_PLAIN_LOW: Final = 1e-3
_PLAIN_HIGH: Final = 1e7
"""Between these Java writes a floating-point number without an exponent."""


def text_of(column: pa.Array, kind: AtomicType) -> pa.Array:
    """The text of values of an atomic type."""
    if kind.root == "FLOAT":
        return by_value(column, lambda v: java_float(v, np.float32(v)), pa.string())
    if kind.root == "DOUBLE":
        return by_value(column, lambda v: java_float(v, np.float64(v)), pa.string())
    if kind.root == "DECIMAL":
        return by_value(column, lambda v: f"{v:f}", pa.string())
    if kind.root == "TIME":
        return by_value(column.view(pa.int32()), lambda v: _time(v, kind.precision or 0), pa.string())
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return _stamps(column, kind)
    return column.cast(pa.string())


def java_float(value: float, shortest: np.floating) -> str:
    """A floating-point number as Java's ``toString``: ``1.0``, ``1.0E10``, ``-Infinity``.

    ``shortest`` is the same number with the width of its type, which decides how many digits identify it.
    """
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if size == 0 or _PLAIN_LOW <= size < _PLAIN_HIGH:
        return str(np.format_float_positional(shortest, unique=True, trim="0"))
    mantissa, _, exponent = str(np.format_float_scientific(shortest, unique=True, trim="0")).partition("e")
    return f"{mantissa}E{int(exponent)}"


def nested_text(column: pa.Array, kind: DataType, to_text: ToText) -> pa.Array:
    """``[1, null]``, ``{k -> v}`` or ``{1, a}``, the parts as ``to_text`` writes them."""
    if isinstance(kind, RowType):
        parts = [to_text(c, f.type).to_pylist() for c, f in zip(column.flatten(), kind.fields, strict=True)]
        rows = [f"{{{', '.join(map(_or_null, values))}}}" for values in zip(*parts, strict=True)]
    elif isinstance(kind, ArrayType):
        texts = to_text(column.values, kind.element).to_pylist()
        rows = [f"[{', '.join(map(_or_null, texts[a:b]))}]" for a, b in _ranges(column)]
    elif isinstance(kind, MapType):
        keys, values = to_text(column.keys, kind.key).to_pylist(), to_text(column.items, kind.value).to_pylist()
        pairs = [f"{_or_null(k)} -> {_or_null(v)}" for k, v in zip(keys, values, strict=True)]
        rows = [f"{{{', '.join(pairs[a:b])}}}" for a, b in _ranges(column)]
    else:
        return to_text(column, kind)
    return pa.array(rows, pa.string(), mask=column.is_null().to_numpy(zero_copy_only=False))


def _or_null(text: str | None) -> str:
    return "null" if text is None else text


def _ranges(column: pa.ListArray | pa.MapArray) -> list[tuple[int, int]]:
    offsets = column.offsets.to_pylist()
    return list(zip(offsets, offsets[1:], strict=False))


def _time(millis: int, precision: int) -> str:
    """``12:30:00``, with as many digits of the fraction as are not zero, one at least when there may be any."""
    seconds, rest = divmod(millis % 86_400_000, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if not precision:
        return text
    digits = f"{rest:03}"[:precision].rstrip("0") or "0"
    return f"{text}.{digits}"


def _stamps(column: pa.Array, kind: AtomicType) -> pa.Array:
    """``2024-01-01 00:00:00.120``: all digits of the precision, and others of the unit that are not zero."""
    unit, digits = time_unit(kind), kind.precision or 0
    ticks = column.view(pa.int64())
    filled = np.array(ticks.fill_null(0) if ticks.null_count else ticks)
    text = filled.astype(f"datetime64[{unit}]").astype(np.str_)
    mask = ticks.is_null().to_numpy(zero_copy_only=False) if ticks.null_count else None
    texts = pc.replace_substring(pa.array(text, pa.string(), mask=mask), "T", " ")
    if not digits:
        return pc.replace_substring_regex(texts, r"\.?0+$", "")
    return pc.replace_substring_regex(texts, rf"^(.*\.\d{{{digits}}}\d*?)0+$", r"\1")
