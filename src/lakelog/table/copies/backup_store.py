"""The directory of the backup of one table, and its points: the states that a restore can choose.

    lakelog/backup.json            version, name and identity of the table; created once
    lakelog/points/<n>             a point, n = 1, 2, 3, …: a ``BackupPoint`` as JSON, created if absent, never changed
    lakelog/leases/                the lease of the process that copies or prunes
    files/<path in the table>      data files, manifests, schemas; each is copied once, whichever points need it

A point is created after all its files. So a backup that is killed leaves the earlier points as they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Self

from lakelog.errors import InvalidRequest, NotFound, Unavailable
from lakelog.io import file_io_for
from lakelog.io.journal import Journal
from lakelog.io.lease import Leases
from lakelog.io.storage.confined import confined
from lakelog.io.storage.file_io import FileIO
from lakelog.options.formats import BACKUP
from lakelog.options.notebook import NotebookView, time_text
from lakelog.options.secrets import without_password
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.types.checked_values import check_version, read_as
from lakelog.paimon.types.json_record import OPTIONAL, JsonRecord
from lakelog.table.copies.file_copies import CopiedFile, check_file_name

_LEASE: Final = "backup"
_WAIT_S: Final = 5.0


@dataclass(frozen=True)
class BackedUpTable(JsonRecord):
    """The table that a directory is the backup of, by its name at the first backup and its identity."""

    table: str
    identity: str
    version: int = BACKUP

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The reverse of ``to_json``. Raises Corrupt, UnsupportedFeature for a later version."""
        parsed = cls.from_json(data)
        check_version(parsed.version, BACKUP, "a backup")
        return parsed


@dataclass(frozen=True, repr=False)
class BackupPoint(NotebookView, JsonRecord):
    """A state of a table in its backup.

    ``snapshot`` is the id of its snapshot, 0 for a table without one, and ``time_ms`` the time of its commit (ms since
    1970). ``snapshot_json`` is the snapshot file, and ``properties`` the state of the log at it. ``log_offsets`` is,
    per bucket of the log, the offset before which all rows are in the point. ``tags`` are the tags that the table had
    at the snapshot. ``files`` are all files of the point, and ``new_files`` and ``new_bytes`` count those that this
    backup copied. ``number`` is its file name, not a part of the content.
    """

    snapshot: int
    time_ms: int
    made_ms: int
    snapshot_json: str
    properties: Mapping[str, str]
    log_offsets: Mapping[int, int]
    tags: tuple[str, ...]
    files: Mapping[str, CopiedFile]
    new_files: int
    new_bytes: int
    version: int = BACKUP
    number: int = field(default=0, metadata=OPTIONAL)

    def __repr__(self) -> str:
        return f"BackupPoint({self.number}, snapshot {self.snapshot}, {time_text(self.time_ms)})"

    def notebook_facts(self) -> Mapping[str, object]:
        """Number, snapshot, time and what was copied."""
        return {
            "point": self.number,
            "snapshot": self.snapshot,
            "committed": time_text(self.time_ms),
            "files": f"{len(self.files):,}",
            "copied": f"{self.new_files:,} files, {self.new_bytes:,} bytes",
        }

    @property
    def state(self) -> Snapshot | None:
        """The snapshot; None for a table without one."""
        return Snapshot.from_json(self.snapshot_json.encode()) if self.snapshot else None


@dataclass(frozen=True)
class BackupStore:
    """The backup of one table in a directory of its own."""

    io: FileIO
    root: str

    @staticmethod
    def at(place: str, storage_options: Mapping[str, str] | None = None) -> BackupStore:
        """The backup in a directory (a path or a URI), whether or not it exists. Raises as ``file_io_for``."""
        io = file_io_for(place, storage_options)
        root = io.absolute(place)
        return BackupStore(confined(io, root), root)

    def __str__(self) -> str:
        return without_password(self.root)

    @property
    def files(self) -> str:
        """The directory of the copied files."""
        return f"{self.root}/files"

    def table(self) -> BackedUpTable:
        """The table of this backup. Raises NotFound if there is no backup."""
        try:
            return read_as(self.io, self._head, BackedUpTable.parse)
        except NotFound:
            raise NotFound(f"'{self}' is not a backup of lakelog: name the directory of 'lakelog backup'") from None

    def begin(self, table: BackedUpTable) -> None:
        """Makes the directory the backup of a table. Raises InvalidRequest if it is that of another one."""
        if self.io.create(self._head, table.to_json()):
            return
        parsed = self.table()
        if parsed.identity != table.identity:
            raise InvalidRequest(
                f"'{self}' is the backup of table {parsed.table}, and table {table.table} is another one or was "
                "created again since: give each table a directory of its own"
            )

    def points(self) -> list[BackupPoint]:
        """The points, in the order of their creation. Raises Corrupt, UnsupportedFeature for a later version."""
        out = []
        for number in self._points.files():
            with contextlib.suppress(NotFound):  # pruned meanwhile
                out.append(read_as(self.io, self._points.path(number), partial(_parse, number)))
        for point in out:
            for name in point.files:
                check_file_name(name, self._points.path(point.number))
        return out

    def create(self, point: BackupPoint, after: int) -> BackupPoint:
        """Creates a point after the point ``after``; returns it with its number. Raises CommitUnknown."""
        number = after + 1
        while not self._points.create(number, point.to_json()):
            number += 1
        return replace(point, number=number)

    def prune(self, keep: int) -> list[BackupPoint]:
        """Deletes all but the newest ``keep`` points, and the files that no point needs; returns the deleted points.

        1 delete the points · 2 list the files, and delete those of no point, also those that a killed backup has left.
        A crash leaves unneeded files, which the next call deletes. Call it while ``leased``.
        """
        # 1
        points = self.points()
        dropped = points[: max(0, len(points) - keep)]
        for point in dropped:
            self.io.delete(self._points.path(point.number))
        # 2
        needed = {name for point in points[len(dropped) :] for name in point.files}
        for path in [*self._walk(self.files)]:
            if path.removeprefix(f"{self.files}/") not in needed:
                self.io.delete(path)
        return dropped

    @contextlib.contextmanager
    def leased(self) -> Iterator[None]:
        """Context in which no other process copies or prunes. Raises Unavailable if one does."""
        busy = Unavailable(f"another process writes the backup in '{self}': wait until it has ended")
        with Leases(self.io, f"{self.root}/lakelog/leases").holding(_LEASE, _WAIT_S, busy):
            yield

    @property
    def _head(self) -> str:
        return f"{self.root}/lakelog/backup.json"

    @property
    def _points(self) -> Journal:
        return Journal(self.io, f"{self.root}/lakelog/points")

    def _walk(self, directory: str) -> Iterator[str]:
        for status in self.io.list(directory):
            path = f"{directory}/{status.name}"
            if status.is_dir:
                yield from self._walk(path)
            else:
                yield path


def _parse(number: int, data: bytes) -> BackupPoint:
    parsed = BackupPoint.from_json(data)
    check_version(parsed.version, BACKUP, "a point of a backup")
    return replace(parsed, number=number)
