"""The schemas that files of a table were written with, by id."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import read_as

_NAME: Final = re.compile(r"schema-(\d+)")


@dataclass(frozen=True)
class Schemas:
    """The schema files of one table; a schema file never changes, so each is read once."""

    io: FileIO
    paths: TablePaths
    _read: dict[int, TableSchema] = field(default_factory=dict, compare=False, repr=False)

    def ids(self) -> list[int]:
        """The ids of all schemas, by listing, in no order."""
        found = (_NAME.fullmatch(status.name) for status in self.io.list(self.paths.schemas))
        return [int(match[1]) for match in found if match]

    def get(self, schema_id: int) -> TableSchema:
        """The schema of this id. Raises NotFound."""
        if schema_id == self.paths.schema.id:
            return self.paths.schema
        found = self._read.get(schema_id)
        if found is None:
            found = self._read[schema_id] = read_as(self.io, self.paths.schema_file(schema_id), TableSchema.from_json)
        return found

    def newest_id(self, at_least: int = 0) -> int:
        """The id of the newest schema now, which an ALTER TABLE may have made after this table was opened.

        Ids have no gap, so one look at the next one is enough; ``at_least`` is one that is known to be there.
        """
        newest = max(self.paths.schema.id, at_least)
        while self.io.exists(self.paths.schema_file(newest + 1)):
            newest += 1
        return newest

    def newest(self) -> TableSchema | None:
        """The newest schema of the branch; None when there is none."""
        ids = self.ids()
        return read_as(self.io, self.paths.schema_file(max(ids)), TableSchema.from_json) if ids else None
