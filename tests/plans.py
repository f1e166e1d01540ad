"""The plans of a frame as text, on every kind of Spark: Connect has no plan but what it prints."""

from __future__ import annotations

import contextlib
import io
from typing import Any


def plans_of(frame: Any) -> str:
    """The parsed, analysed, optimised and physical plan."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(True)
    return printed.getvalue()


def optimized_plan(frame: Any) -> str:
    """The optimised plan alone."""
    return plans_of(frame).partition("== Optimized Logical Plan ==")[2].partition("== Physical Plan ==")[0]
