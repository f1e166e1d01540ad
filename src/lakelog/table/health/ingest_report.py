"""What the process of ``lakelog ingest`` last said of a table: one small JSON file next to the table.

``<table>/lakelog/ingest.json``. The source's own state would need its address and password, which a lake does not have.
Readers of the format and orphan cleaning do not read this directory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lakelog.errors import Corrupt, NotFound
from lakelog.io.clock import now_ms
from lakelog.io.machine import has_ended
from lakelog.io.storage.file_io import FileIO
from lakelog.table.health.stats import IngestStats

SILENT_MS: Final = 420_000
"""Age of a report after which its process is taken for dead: longer than a run waits for its server."""


@dataclass(frozen=True)
class IngestReport:
    """The report of one table."""

    io: FileIO
    table_path: str

    @property
    def path(self) -> str:
        return f"{self.table_path}/lakelog/ingest.json"

    def write(self, stats: IngestStats) -> None:
        """Replaces the report. Raises Unavailable."""
        self.io.write(self.path, stats.to_json())

    def remove(self) -> None:
        """Deletes the report after the slot was dropped. Raises Unavailable."""
        self.io.delete(self.path)

    def read(self) -> IngestStats | None:
        """The last report, with ``is_gone`` as of now; None without one. Raises Unavailable."""
        try:
            found = IngestStats.from_json(self.io.read(self.path))
        except (NotFound, Corrupt):
            return None  # or of a later version
        is_dead = has_ended(found.machine, found.process)
        is_silent = now_ms() - found.reported_ms > SILENT_MS
        return replace(found, is_gone=found.is_open and (is_dead or is_silent))
