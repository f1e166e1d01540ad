"""What the process of ``lakelog replicate`` last said of a replica, in a small file ``<table>/lakelog/replica.json``.

Readers of the format and orphan cleaning do not read this directory.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.errors import Corrupt, NotFound
from lakelog.io.storage.file_io import FileIO
from lakelog.table.health.stats import ReplicaStats


@dataclass(frozen=True)
class ReplicaReport:
    """The report of one replica."""

    io: FileIO
    table_path: str

    @property
    def path(self) -> str:
        return f"{self.table_path}/lakelog/replica.json"

    def write(self, stats: ReplicaStats) -> None:
        """Replaces the report. Raises Unavailable."""
        self.io.write(self.path, stats.to_json())

    def read(self) -> ReplicaStats | None:
        """The last report; None for a table that is no replica. Raises Unavailable."""
        try:
            stats = ReplicaStats.from_json(self.io.read(self.path))
        except (NotFound, Corrupt):
            return None
        return None if stats.promoted else stats
