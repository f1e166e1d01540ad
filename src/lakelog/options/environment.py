"""The environment variables that lakelog reads beside those of the command line's options; children inherit them."""

from __future__ import annotations

from typing import Final

LOG_LEVEL: Final = "LAKELOG_LOG_LEVEL"
LOG_FORMAT: Final = "LAKELOG_LOG_FORMAT"
"""From which level on lakelog's log is written to stderr, and the form of its lines."""
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

METRICS_DIR: Final = "LAKELOG_METRICS_DIR"
"""The directory in which processes of one machine pass their counts on."""
