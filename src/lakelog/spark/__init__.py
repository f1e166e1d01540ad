"""The Spark data source, sessions and engine; the only importer of pyspark.

Every way to Spark leads through this module: it checks the installed PySpark before any other import.
"""

from __future__ import annotations

from lakelog.errors import NotInstalled
from lakelog.options.environment import PYSPARK_BELOW, PYSPARK_OLDEST

_STILL = (
    "Without Spark, Python reads and writes tables: lake.table(…).scan(), tail(), writer(), merge(…), lake.write(…), "
    "and in SQL: CREATE, ALTER, DROP, SHOW, DESCRIBE, CALL, most queries, and simple INSERT, UPDATE and DELETE"
)


def check_pyspark() -> None:
    """Raises NotInstalled with the pip command if PySpark is missing, or of another version than the tested ones."""
    low, high = (".".join(map(str, version)) for version in (PYSPARK_OLDEST, PYSPARK_BELOW))
    command = f"pip install 'lakelog[spark]' (PySpark >={low},<{high})"
    try:
        from pyspark.version import __version__ as found  # noqa: PLC0415 - its absence is an answer, not an error
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyspark":
            raise
        raise NotInstalled(f"this needs Spark, which is not installed: {command}. {_STILL}") from missing
    numbers = tuple(int(part) for part in found.split(".")[:2])
    if not PYSPARK_OLDEST <= numbers < PYSPARK_BELOW:
        raise NotInstalled(
            f"PySpark {found} is installed, and lakelog's Spark parts need >={low},<{high}: {command}. {_STILL}"
        )


check_pyspark()
