"""lakelog's errors as Spark tells them when they were raised in a process of its own."""

from __future__ import annotations

import re
from typing import Final

from lakelog.errors import CommitConflict

_CONFLICT: Final = re.compile(rf"{re.escape(CommitConflict.__module__)}\.{CommitConflict.__name__}: (.*)")


def lakelog_error_in(refused: Exception) -> CommitConflict | None:
    """The conflict that an error of Spark tells of; None when it tells of something else.

    Called where Spark commits in a process of its own (Spark Connect): whoever can do it again has to know.
    """
    found = _CONFLICT.search(str(refused))
    return None if found is None else CommitConflict(found[1].strip())
