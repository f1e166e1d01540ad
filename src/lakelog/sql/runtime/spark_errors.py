"""What an error of Spark was made of."""

from __future__ import annotations

import re

from lakelog import errors
from lakelog.errors import LakelogError


def lakelog_error_in_text(failure: Exception) -> Exception:
    """The lakelog error that a Spark task raised: Spark carries it only as the last line of a traceback in its text."""
    if isinstance(failure, LakelogError):
        return failure
    found = re.findall(r"^lakelog\.errors\.(\w+): (.+)$", str(failure), re.MULTILINE)
    kind = getattr(errors, found[-1][0], None) if found else None
    return failure if kind is None else kind(found[-1][1])
