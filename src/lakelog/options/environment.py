"""The environment: tested versions of PySpark, and variables that are no options of the command line."""

from __future__ import annotations

from typing import Any, Final

from lakelog.options.registry import Registry

PYSPARK_OLDEST: Final = (3, 5)
PYSPARK_BELOW: Final = (4, 4)
"""The tested versions of PySpark: from the first, below the second."""

LOG_LEVEL: Final = "LAKELOG_LOG_LEVEL"
LOG_FORMAT: Final = "LAKELOG_LOG_FORMAT"
"""Minimum level and line format of lakelog's log on stderr."""
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

BARS: Final[Registry[Any]] = Registry("bars", {"terminal": "lakelog.cli.console.bars:shown_bars"})
"""What shows the steps of this process: of a command, and at a prompt of Python."""

METRICS_DIR: Final = "LAKELOG_METRICS_DIR"
"""The directory in which processes of one machine pass their counts on."""

SECRETS_OF_TABLES: Final = "LAKELOG_SECRETS"
"""The secrets that references in the options of tables may name, each with the servers that may get it."""
