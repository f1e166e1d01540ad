"""The environment of a process that starts a Spark of its own."""

from __future__ import annotations

import os
from typing import Final

_CONNECTS: Final = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE")
"""PySpark sets and reads these: with one of them a session is one of a Spark Connect server."""


def environment_of_own_spark() -> dict[str, str]:
    """The variables of this process for a child whose driver is to be itself.

    Called where this process may have a session on Spark Connect, which its children would have to have, too.
    """
    return {name: value for name, value in os.environ.items() if name not in _CONNECTS}
