"""The durable state of the file store in memory: snapshots, the live files of each, and the rows of every file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from simulated_process import Scheduler

from lakelog.errors import CommitConflict, NotFound
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.metadata.snapshots import empty_commit, is_foreign
from lakelog.filestore.read.plan import BucketKey
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import TableSchema

FileRow = tuple[int, int, int, int, int | None, int | None]
"""Sequence number, row kind, and the columns by id; None in rows of before the column."""

LiveFiles = dict[BucketKey, tuple[DataFileMeta, ...]]
"""The files by bucket."""

COLUMNS = 4
"""The ids that a column may have."""


@dataclass(eq=False)
class Warehouse:
    """The durable state: snapshots, the files of each by bucket, and the rows of every file."""

    scheduler: Scheduler
    schema: TableSchema
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    live: dict[int, LiveFiles] = field(default_factory=dict)
    rows: dict[str, list[FileRow]] = field(default_factory=dict)

    @property
    def newest(self) -> Snapshot | None:
        """The newest snapshot, but no foreign one above a gap (as ``Snapshots.latest_id``)."""
        for number in sorted(self.snapshots, reverse=True):
            with contextlib.suppress(NotFound):
                return self.read(number)
        return None

    def read(self, number: int) -> Snapshot:
        """One snapshot, a foreign one as an empty commit (as ``Snapshots.read``). Raises NotFound."""
        found = self.snapshots.get(number)
        if found is None:
            raise NotFound(f"no snapshot {number}")
        if not is_foreign(found, self.schema):
            return found
        self.scheduler.events["snapshots of an earlier table"] += 1
        return empty_commit(number, None if number == 1 else self.read(number - 1))

    def files_at(self, snapshot: Snapshot | int | None) -> LiveFiles:
        """The files of a snapshot by bucket. Raises NotFound for an expired one."""
        number = snapshot.id if isinstance(snapshot, Snapshot) else snapshot
        while number in self.snapshots and is_foreign(self.snapshots[number], self.schema):
            number -= 1
        if number and number not in self.live:
            raise NotFound(f"no snapshot {number}")
        return self.live[number] if number else {}

    def rows_of(self, file: DataFileMeta) -> list[FileRow]:
        """The rows of a file. Raises NotFound for a file that expired with its snapshots."""
        if file.file_name not in self.rows:
            raise NotFound(f"no file {file.file_name}")
        return self.rows[file.file_name]

    def new_file(self, rows: list[FileRow], schema_id: int = 0) -> DataFileMeta:
        """Adds a file that no snapshot references yet."""
        name, numbers = f"data-{self.scheduler.uuid4()}", [row[0] for row in rows]
        self.rows[name] = rows
        return DataFileMeta(
            name, 1, len(rows), min_sequence_number=min(numbers), max_sequence_number=max(numbers), schema_id=schema_id
        )

    def expire(self, number: int) -> None:
        """Removes a snapshot, and the files that only it referenced."""
        self.snapshots.pop(number, None)
        named = {f.file_name for files in self.live.pop(number, {}).values() for f in files}
        for live in self.live.values():
            named -= {f.file_name for files in live.values() for f in files}
        for name in named:
            self.rows.pop(name, None)


def newest(rows: Iterable[FileRow]) -> list[FileRow]:
    """The newest row of each key, in the order of the keys. Raises AssertionError when two have one number."""
    by_key: dict[int, FileRow] = {}
    for row in rows:
        found = by_key.get(row[2])
        assert found is None or found[0] != row[0] or found == row, f"one number for two rows of a key: {found} {row}"
        if found is None or found[0] < row[0]:
            by_key[row[2]] = row
    return [by_key[key] for key in sorted(by_key)]


def remaining(live: LiveFiles, request: CommitRequest) -> LiveFiles:
    """The live files without those that a commit removes. Raises CommitConflict if one of them is not live."""
    over, out = request.overwrite, dict(live)
    if over is not None:
        named = {f.file_name for files in live.values() for f in files}
        if lost := sorted((over.kept or frozenset()) - named):
            raise CommitConflict(f"data file '{lost[0]}', which was to stay, was replaced by another commit")
        out = {
            (partition, bucket): tuple(f for f in files if not over.replaces(partition, f.file_name))
            for (partition, bucket), files in live.items()
        }
        out = {bucket_key: files for bucket_key, files in out.items() if files}
    for change in request.files:
        bucket_key = (change.partition, change.bucket)
        found = out.get(bucket_key, ())
        missing = [f.file_name for f in change.deleted_files if f not in found]
        if missing:
            raise CommitConflict(f"data file '{missing[0]}' was replaced by another commit")
        out[bucket_key] = tuple(f for f in found if f not in change.deleted_files)
    return out
