"""A log system of a package outside of lakelog: the embedded log under another name."""

from __future__ import annotations

from lakelog.logstore.embedded.system import EmbeddedLogSystem


class Journal(EmbeddedLogSystem):
    """Logs in SQLite files."""
