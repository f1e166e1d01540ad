"""What a service last said of a table: one small JSON file next to it, ``<table>/lakelog/<service>.json``.

Readers of the format and orphan cleaning do not read this directory, and no service depends on its file.
"""

from __future__ import annotations

from typing import ClassVar, Self

from lakelog.errors import Corrupt, NotFound
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.types.json_record import JsonRecord


class ServiceReport(JsonRecord):
    """Base of the reports, which are frozen dataclasses; ``service`` names the file."""

    service: ClassVar[str]

    @classmethod
    def path(cls, table_path: str) -> str:
        """The file of a table."""
        return f"{table_path}/lakelog/{cls.service}.json"

    @classmethod
    def read(cls, io: FileIO, table_path: str) -> Self | None:
        """The last report of a table, as of now; None without one. Raises Unavailable."""
        try:
            return cls.from_json(io.read(cls.path(table_path))).as_of_now()
        except (NotFound, Corrupt):
            return None  # or of a later version

    def write(self, io: FileIO, table_path: str) -> None:
        """Replaces the report of a table. Raises Unavailable."""
        io.write(self.path(table_path), self.to_json())

    def as_of_now(self) -> Self | None:
        """The report with what has changed since it was written; None if it holds no longer."""
        return self
