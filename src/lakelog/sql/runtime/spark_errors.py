"""Extraction of lakelog errors from Spark errors."""

from __future__ import annotations

import re

from lakelog import errors
from lakelog.errors import LakelogError


def lakelog_error_in_text(failure: BaseException) -> BaseException:
    """The lakelog error of a Spark task, which Spark reports only as the last line of a traceback in its text."""
    if isinstance(failure, LakelogError):
        return failure
    matches = re.findall(r"^lakelog\.errors\.(\w+): (.+)$", str(failure), re.MULTILINE)
    kind = getattr(errors, matches[-1][0], None) if matches else None
    return failure if kind is None else kind(matches[-1][1])
