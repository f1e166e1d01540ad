"""The embedded log: SQLite files in the table's directory."""

from __future__ import annotations

from typing import Final

from lakelog.logstore.factory import LogFactory

EMBEDDED: Final = LogFactory(
    name="embedded",
    system="lakelog.logstore.embedded.system:EmbeddedLogSystem",
    file="lakelog/log.sqlite",
    file_suffixes=("", "-wal", "-shm", "-journal"),
    data_format="arrow",
)
