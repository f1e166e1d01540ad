"""The environment of a process that starts its own Spark."""

from __future__ import annotations

import os
from typing import Final

_CONNECTS: Final = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE")
"""Variables that PySpark sets and reads: with one of them, a session is one of Spark Connect."""


def environment_of_own_spark() -> dict[str, str]:
    """The variables of this process for a child that is its own driver.

    Called where this process may have a session of Spark Connect, which its children would otherwise need too.
    """
    return {name: value for name, value in os.environ.items() if name not in _CONNECTS}
