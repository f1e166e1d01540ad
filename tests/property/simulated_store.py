"""The file store in memory: snapshots in a list, data files that are lists of rows with their sequence numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from simulated_process import Scheduler
from simulated_values import InlineRuns

from lakelog.errors import CommitConflict, CommitUnknown, NotFound
from lakelog.filestore.commit_request import CommitRequest
from lakelog.filestore.filter import In
from lakelog.filestore.paths import TablePaths
from lakelog.filestore.scan import Place, Split
from lakelog.io.file_io import FileIO
from lakelog.spec.data_file import DataFileMeta
from lakelog.spec.row_kind import DELETE, UPDATE_BEFORE
from lakelog.spec.schema import TableSchema
from lakelog.spec.snapshot import Snapshot

FileRow = tuple[int, int, int, int]
"""Sequence number, row kind, id, v."""

_ROUNDS = 10
_SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())])


@dataclass(eq=False)
class Warehouse:
    """What is durable: snapshots, the files that each of them holds by place, and the rows of every file."""

    scheduler: Scheduler
    runs: InlineRuns
    snapshots: list[Snapshot] = field(default_factory=list)
    live: list[dict[Place, tuple[DataFileMeta, ...]]] = field(default_factory=list)
    rows: dict[str, list[FileRow]] = field(default_factory=dict)

    def files_at(self, snapshot: Snapshot | int | None) -> dict[Place, tuple[DataFileMeta, ...]]:
        """The files of a snapshot by place."""
        number = snapshot.id if isinstance(snapshot, Snapshot) else snapshot
        return self.live[number - 1] if number else {}

    def new_file(self, rows: list[FileRow], level: int = 0) -> DataFileMeta:
        """A file that no snapshot names yet."""
        name, numbers = f"data-{len(self.rows)}", [row[0] for row in rows]
        self.rows[name] = rows
        lowest, highest = min(numbers), max(numbers)
        return DataFileMeta(name, 1, len(rows), min_sequence_number=lowest, max_sequence_number=highest, level=level)


@dataclass(frozen=True)
class _Snapshots:
    warehouse: Warehouse

    def latest(self) -> Snapshot | None:
        held = self.warehouse.snapshots
        self.warehouse.scheduler.pause(f"latest snapshot ({len(held)})")
        return held[-1] if held else None

    def latest_id(self) -> int | None:
        found = self.latest()
        return None if found is None else found.id

    def earliest_id(self) -> int | None:
        return 1 if self.warehouse.snapshots else None

    def exists(self, number: int) -> bool:
        return 1 <= number <= len(self.warehouse.snapshots)

    def get(self, number: int) -> Snapshot:
        if not self.exists(number):
            raise NotFound(f"no snapshot {number}")
        return self.warehouse.snapshots[number - 1]

    def backwards(self, start: Snapshot | None = None) -> Iterator[Snapshot]:
        first = self.latest() if start is None else start
        number = 0 if first is None else first.id
        while number:
            yield self.warehouse.snapshots[number - 1]
            number -= 1

    def find(
        self, user: str, identifier: int, kind: str | None = None, start: Snapshot | None = None, after: int = 0
    ) -> Snapshot | None:
        for snapshot in self.backwards(start):
            if snapshot.id <= after:
                return None
            if (snapshot.commit_user, snapshot.commit_identifier) == (user, identifier):
                return snapshot
        return None


@dataclass(frozen=True)
class _Schemas:
    schema: TableSchema

    def newest_id(self, at_least: int = 0) -> int:
        return self.schema.id

    def get(self, number: int) -> TableSchema:
        return self.schema


@dataclass
class _BucketWriter:
    """Takes rows and makes one file of them; of a keyed table the newest row of each key."""

    warehouse: Warehouse
    keyed: bool
    held: list[FileRow] = field(default_factory=list)
    changelog_files: tuple[DataFileMeta, ...] = ()

    def write(self, rows: pa.Table, kinds: Any = None, sequences: Any = None) -> None:
        columns = (sequences, kinds, rows.column("id"), rows.column("v"))
        self.held += zip(*(column.to_pylist() for column in columns), strict=True)

    def finish(self) -> tuple[DataFileMeta, ...]:
        rows = newest(self.held) if self.keyed else self.held
        return (self.warehouse.new_file(rows),) if rows else ()


@dataclass(frozen=True)
class SimulatedStore:
    """What the table's code asks of a ``FileStore``."""

    warehouse: Warehouse
    io: FileIO
    table_path: str
    schema: TableSchema
    branch: str
    name: str

    @cached_property
    def paths(self) -> TablePaths:
        return TablePaths(self.table_path, self.schema, self.branch)

    @cached_property
    def snapshots(self) -> _Snapshots:
        return _Snapshots(self.warehouse)

    @cached_property
    def schemas(self) -> _Schemas:
        return _Schemas(self.schema)

    @property
    def manifests(self) -> None:
        """There is no index of dynamic buckets in them."""

    def with_newest_schema(self) -> SimulatedStore:
        return self

    def latest_snapshot(self) -> Snapshot | None:
        return self.snapshots.latest()

    def snapshot(self, number: int) -> Snapshot:
        return self.snapshots.get(number)

    def bucket_writer(self, partition: bytes, bucket: int, **_: object) -> _BucketWriter:
        return _BucketWriter(self.warehouse, self.schema.is_keyed)

    def max_sequence_numbers(self, snapshot: Snapshot | None, touched: Collection[Place]) -> dict[Place, int]:
        files = self.warehouse.files_at(snapshot)
        return {place: max(f.max_sequence_number for f in files[place]) for place in touched if files.get(place)}

    def commit(self, request: CommitRequest) -> Snapshot:
        """As ``TableCommit.commit``: prepares on the newest snapshot, creates the next one if it is absent."""
        warehouse = self.warehouse
        scheduler, held = warehouse.scheduler, warehouse.snapshots
        for round_ in range(_ROUNDS):
            latest = self.latest_snapshot()
            if round_ or not request.first_try:
                done = self.snapshots.find(request.user, request.identifier, start=latest)
                if done is not None:
                    return done
            live = dict(warehouse.files_at(latest))
            for change in request.files:
                place = (change.partition, change.bucket)
                files = tuple(f for f in live.get(place, ()) if f not in change.deleted_files)
                live[place] = files + tuple(self._above(file, files) for file in change.new_files)
            properties = dict(request.properties)
            if request.prepare is not None:
                properties |= request.prepare(latest)
            made = _snapshot(1 if latest is None else latest.id + 1, request, properties, scheduler.time_ns())
            scheduler.pause(f"create snapshot {made.id}")
            if held and held[-1].id >= made.id:
                scheduler.events["lost snapshot races"] += 1
                scheduler.sleep(0.01 * scheduler.random())
                continue
            lost = scheduler.loses(f"create snapshot {made.id}")
            if not lost or scheduler.dice.random() < 0.6:
                held.append(made)
                warehouse.live.append(live)
            if lost and scheduler.dice.random() < 0.5:
                raise CommitUnknown(f"nobody knows whether snapshot {made.id} was created")
            if not lost or held[-1:] == [made]:
                scheduler.landmark(f"created snapshot {made.id} of {request.user} {request.identifier}")
                return made
        raise CommitConflict(f"commit {request.identifier} of {request.user} lost {_ROUNDS} times")

    def _above(self, file: DataFileMeta, others: Sequence[DataFileMeta]) -> DataFileMeta:
        """The file with sequence numbers above those of others."""
        highest = max((f.max_sequence_number for f in others), default=-1)
        if not self.schema.is_keyed or file.min_sequence_number > highest:
            return file
        shift = highest + 1 - file.min_sequence_number
        return self.warehouse.new_file([(n + shift, *rest) for n, *rest in self.warehouse.rows[file.file_name]])

    def plan(
        self,
        snapshot_id: int | Snapshot | None = None,
        filter: Any = None,
        extra_runs: Mapping[Place, Sequence[bytes]] | None = None,
        **_: object,
    ) -> list[Split]:
        """A split a bucket."""
        extra = extra_runs or {}
        if snapshot_id is None:
            snapshot_id = self.latest_snapshot()
        live = self.warehouse.files_at(snapshot_id)
        number = snapshot_id.id if isinstance(snapshot_id, Snapshot) else snapshot_id
        return [
            Split(*place, self.schema.num_buckets, live.get(place, ()), True, number, tuple(extra.get(place, ())))
            for place in sorted({*live, *extra})
        ]

    def read_split(
        self, split: Split, columns: Sequence[str] | None = None, filter: Any = None, **_: object
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a bucket."""
        rows = [row for file in split.files for row in self.warehouse.rows[file.file_name]]
        for run in split.inline_runs:
            table = self.warehouse.runs.from_ipc(run)
            names = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "v")
            rows += zip(*(table.column(name).to_pylist() for name in names), strict=True)
        if self.schema.is_keyed:
            rows = [row for row in newest(rows) if row[1] not in (DELETE, UPDATE_BEFORE)]
        if filter is not None:
            assert isinstance(filter, In) and filter.column == "id"
            rows = [row for row in rows if row[2] in filter.values]
        found = {"id": [row[2] for row in rows], "v": [row[3] for row in rows]}
        yield pa.RecordBatch.from_pydict(found, schema=_SCHEMA).select(list(columns or ("id", "v")))


def newest(rows: Iterable[FileRow]) -> list[FileRow]:
    """The newest row of each key, in the order of the keys. Raises AssertionError when two have one number."""
    by_key: dict[int, FileRow] = {}
    for row in rows:
        found = by_key.get(row[2])
        assert found is None or found[0] != row[0] or found == row, f"one number for two rows of a key: {found} {row}"
        if found is None or found[0] < row[0]:
            by_key[row[2]] = row
    return [by_key[key] for key in sorted(by_key)]


def _snapshot(number: int, request: CommitRequest, properties: Mapping[str, str], ns: int) -> Snapshot:
    return Snapshot(
        number, 0, "", "", request.user, request.identifier, request.kind, ns // 1_000_000, 0, 0,
        watermark=request.watermark, properties=properties or None,
    )  # fmt: skip
