"""How far the named readers of a log are (``consumer-id``): one small file each, for people and for monitoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from lakelog.errors import InvalidRequest, NotFound
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.types.checked_values import offsets_of, read_as


@dataclass(frozen=True)
class NamedReader:
    """A reader: the offset of each bucket that it reads next, and when it last said so (ms since 1970)."""

    name: str
    offsets: Mapping[int, int]
    moved_ms: int


@dataclass(frozen=True)
class NamedReaders:
    """The named readers of one table's log (``<table>/lakelog/readers/<name>``)."""

    io: FileIO
    table_path: str

    @property
    def _root(self) -> str:
        return f"{self.table_path}/lakelog/readers"

    def record(self, name: str, offsets: Mapping[int, int]) -> None:
        """Notes where a reader is. Raises InvalidRequest for a name that cannot be that of a file."""
        if not name.strip() or "/" in name or "\\" in name:
            raise InvalidRequest(f"'{name}' cannot be the name of a reader: it must not be blank or have '/' or '\\'")
        self.io.write(f"{self._root}/{name}", orjson.dumps({str(b): o for b, o in sorted(offsets.items())}))

    def list(self) -> Sequence[NamedReader]:
        """All readers, by name."""
        out = []
        for status in self.io.list(self._root):
            try:
                found = read_as(self.io, status.path, offsets_of)
            except NotFound:
                continue
            out.append(NamedReader(status.name, found, status.mtime_ms))
        return sorted(out, key=lambda reader: reader.name)
