"""What a table is known by beside its name: an id that CREATE gave it, and that no later table of the name has.

It is an option of the first schema, which every later one carries on: ALTER, also Paimon's, copies the options, RENAME
moves the schemas with the directory, and DROP removes them. A table that was made without one, by Paimon or by an
early version, is known by the time at which its first schema was made.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from typing import Final

from lakelog.errors import NotFound, TableReplaced, Unavailable
from lakelog.filestore.metadata.paths import MAIN_BRANCH, TablePaths
from lakelog.io.clock import monotonic_s
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import read_as

TABLE_ID: Final = "lakelog.table-id"
LOOK_EVERY_S: Final = 5.0
"""So often those look who are at work for long and decide nothing."""
_SEEN: dict[tuple[int, str], float] = {}
"""(process, key) → when the table was there last."""


@dataclass(frozen=True)
class Identity:
    """The identity of a table as it was opened: ``paths`` have the schema that it had then. Picklable."""

    io: FileIO
    paths: TablePaths
    name: str

    @property
    def text(self) -> str:
        """What positions and decisions keep of it. Reads the first schema of a table that was made without an id."""
        return self.id or f"made-{self._read(self._first).time_millis}"

    @property
    def key(self) -> str:
        """What a process may remember of the table goes by: its directory and its id. Reads nothing."""
        return f"{self.paths.root}#{self.id or self.paths.schema.time_millis}"

    def check(self, within_s: float = 0.0) -> None:
        """Raises TableReplaced when the table was renamed, or dropped, and perhaps another one has its name now.

        One small read; none when this process has made it within so many seconds, and then storage that is away is no
        reason to stop either.
        """
        key = os.getpid(), self.key
        if within_s and monotonic_s() < _SEEN.get(key, float("-inf")) + within_s:
            return
        try:
            found = self._found()
        except Unavailable:
            if within_s:
                return
            raise
        if found is None and self.io.snapshot_owner is not None:
            return  # the server may keep the schemas for itself; it knows the table when it commits
        if found is None:
            raise TableReplaced(
                f"table {self.name} is not in '{self.paths.root}' any more: it was dropped, or renamed, since it was "
                f"opened. Nothing was written; open it again by the name that it has now"
            )
        if not self._is_same(found):
            raise TableReplaced(
                f"table {self.name} was dropped, or renamed, and another table was created in '{self.paths.root}' "
                f"since it was opened. Nothing was written; open it again to work with the new one"
            )
        _SEEN[key] = monotonic_s()

    @property
    def id(self) -> str | None:
        """The id that CREATE gave it, None for a table that was made without."""
        return self.paths.schema.options.get(TABLE_ID)

    @property
    def _first(self) -> str:
        return replace(self.paths, branch=MAIN_BRANCH).schema_file(0)

    def _found(self) -> TableSchema | None:
        """The schema's file as it is now, or with an id the first one: a branch that became main may have taken it."""
        for path in (self.paths.schema_file(self.paths.schema.id), *([] if self.id is None else [self._first])):
            with contextlib.suppress(NotFound):
                return self._read(path)
        return None

    def _read(self, path: str) -> TableSchema:
        return read_as(self.io, path, TableSchema.from_json)

    def _is_same(self, found: TableSchema) -> bool:
        """Whether a schema that lies there is one of this table."""
        if self.id is not None or TABLE_ID in found.options:
            return found.options.get(TABLE_ID) == self.id
        return found.time_millis == self.paths.schema.time_millis
