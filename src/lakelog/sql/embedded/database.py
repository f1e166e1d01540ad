"""The database in memory that runs the queries of one lake: limits, time zone, and the directories that it may read."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Collection
from typing import Any, Final

from lakelog.io.scratch import ScratchDirectory
from lakelog.state.embedded_sql import CLOSED, SETTINGS, duckdb_module, prepare

_MEMORY: Final = "640MB"
"""Memory of all queries of a lake in DuckDB; more goes to temporary files."""


class EmbeddedDatabase:
    """DuckDB in memory, opened with the first query; several threads may have a cursor each.

    It reads no file outside of the directories of tables, and knows no extension. ``zone`` returns the session's time
    zone, None for that of this machine.
    """

    def __init__(self, zone: Callable[[], str | None]) -> None:
        self._zone = zone
        self._zone_there: str | None = None
        self._open: tuple[Any, ScratchDirectory] | None = None
        self._directories: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def cursor(self, directories: Collection[str]) -> Any:
        """A connection that may read these directories; the caller closes it.

        Raises NotInstalled without DuckDB, InvalidRequest for a time zone that it does not know, Unavailable.
        """
        with self._lock:
            zone = self._zone()
            if self._open is None or zone != self._zone_there or not self._directories.issuperset(directories):
                self._directories |= frozenset(directories)
                self._open, self._zone_there = self._opened(zone), zone
            return self._open[0].cursor()

    def _opened(self, zone: str | None) -> tuple[Any, ScratchDirectory]:
        module = duckdb_module()
        scratch = ScratchDirectory(tempfile.gettempdir(), "lakelog-sql-")
        limits = {
            "memory_limit": _MEMORY,
            "threads": str(os.cpu_count() or 1),
            "temp_directory": f"{scratch.path}/spill",
        }
        db = module.connect(":memory:", config={**SETTINGS, **limits})
        names = ", ".join("'" + path.replace("'", "''") + "'" for path in sorted(self._directories))
        db.execute(f"SET allowed_directories = [{names}]")
        db.execute(CLOSED)
        prepare(db, zone)
        db.execute("SET lock_configuration = true")
        return db, scratch

    def close(self) -> None:
        """Ends the database and removes its temporary files; the next query opens another one."""
        with self._lock:
            opened, self._open = self._open, None
        if opened is not None:
            opened[0].close()
            opened[1].close()
