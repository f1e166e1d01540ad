"""Decimals as whole numbers (their digits without the point), and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_WORD: Final = 1 << 64
_LONG_DIGITS: Final = 18


def is_short_decimal(kind: pa.DataType) -> bool:
    """Whether the digits fit 64 bits."""
    return bool(kind.precision <= _LONG_DIGITS)


def unscaled(values: pa.Array) -> npt.NDArray[Any]:
    """The digits of decimals without NULL: int64 for short ones, else Python numbers."""
    words = np.frombuffer(values.buffers()[1] or b"", dtype=np.int64).reshape(-1, 2)
    words = words[values.offset : values.offset + len(values)]
    if is_short_decimal(values.type):
        low: npt.NDArray[np.int64] = words[:, 0]
        return low
    digits: npt.NDArray[Any] = words[:, 1].astype(object) * _WORD + words[:, 0].view(np.uint64).astype(object)
    return digits


def decimal_array(digits: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Decimals of Python numbers (None: NULL). More digits than the type has stay: the format does not check them."""
    data = b"".join(int(d or 0).to_bytes(16, "little", signed=True) for d in digits)
    valid = pa.array([d is not None for d in digits], pa.bool_())
    return pa.Array.from_buffers(kind, len(digits), [valid.buffers()[1], pa.py_buffer(data)])
