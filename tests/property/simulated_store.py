"""The file store in memory: snapshots in a list, data files that are lists of rows with their sequence numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from simulated_process import Program, Scheduler
from simulated_rollbacks import SimulatedState
from simulated_values import InlineRuns
from simulated_warehouse import COLUMNS, FileRow, LiveFiles, Warehouse, newest, remaining

from lakelog.errors import CommitConflict, CommitUnknown, TableReplaced
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.gc.expiry import Retention, pick_end
from lakelog.filestore.metadata.identity import Identity
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.metadata.snapshots import is_empty_commit, is_foreign
from lakelog.filestore.read.plan import BucketKey, Split
from lakelog.filestore.skipping.predicate import In
from lakelog.io import clock
from lakelog.io.storage.file_io import FileIO, moved
from lakelog.options.table import TABLE_ID
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, IndexManifestEntry, ManifestEntry
from lakelog.paimon.metadata.snapshot import OVERWRITE, Snapshot
from lakelog.paimon.rows.row_kind import DELETE, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.model.registrations import REPLACEMENT

_ROUNDS = 10


@dataclass(frozen=True)
class _Snapshots:
    store: SimulatedStore

    @property
    def _held(self) -> dict[int, Snapshot]:
        return self.store.warehouse.snapshots

    def latest(self) -> Snapshot | None:
        self.store.scheduler.pause("latest snapshot")
        return self.store.warehouse.newest

    def latest_id(self) -> int | None:
        found = self.latest()
        return None if found is None else found.id

    def earliest_id(self) -> int | None:
        return min(self._held, default=None)

    def exists(self, number: int) -> bool:
        return number in self._held

    def chain_ids(self) -> list[int]:
        newest = self.latest_id() or 0
        return [number for number in sorted(self._held) if number <= newest]

    def get(self, number: int) -> Snapshot:
        return self.store.warehouse.read(number)

    @contextlib.contextmanager
    def reading(self, snapshot_id: int | None, table: str) -> Iterator[None]:
        """Errors of expired snapshots stay as they are."""
        yield

    def backwards(self, start: Snapshot | None = None) -> Iterator[Snapshot]:
        found = self.latest() if start is None else start
        while found is not None:
            yield found
            found = self.get(found.id - 1) if self.exists(found.id - 1) else None

    def find(
        self, user: str, identifier: int, kind: str | None = None, start: Snapshot | None = None, after: int = 0
    ) -> Snapshot | None:
        for snapshot in self.backwards(start):
            if snapshot.id <= after:
                return None
            if (snapshot.commit_user, snapshot.commit_identifier) == (user, identifier):
                return snapshot
        return None


@dataclass
class _BucketWriter:
    """A writer that creates one file of its rows; of a keyed table with the newest row of each key."""

    warehouse: Warehouse
    schema: TableSchema
    held: list[FileRow] = field(default_factory=list)
    changelog_files: tuple[DataFileMeta, ...] = ()

    def write(self, rows: pa.Table, kinds: Any = None, sequences: Any = None) -> None:
        self.held += zip(sequences.to_pylist(), kinds.to_pylist(), *_values(rows, self.schema), strict=True)

    def finish(self) -> tuple[DataFileMeta, ...]:
        rows = newest(self.held) if self.schema.is_keyed else self.held
        return (self.warehouse.new_file(rows, self.schema.id),) if rows else ()


@dataclass(frozen=True)
class SimulatedStore:
    """The methods of ``FileStore`` that the table's code calls."""

    scheduler: Scheduler
    runs: InlineRuns
    beside: dict[str, Warehouse]
    replaces: bool
    io: FileIO
    table_path: str
    schema: TableSchema
    branch: str
    name: str
    identity: Identity

    @property
    def warehouse(self) -> Warehouse:
        """The durable state at the table's path; empty if none exists."""
        return self.beside.get(self.table_path) or Warehouse(self.scheduler, self.schema)

    @cached_property
    def paths(self) -> TablePaths:
        return TablePaths(self.table_path, self.schema, self.branch)

    @cached_property
    def snapshots(self) -> _Snapshots:
        return _Snapshots(self)

    @cached_property
    def schemas(self) -> Schemas:
        return Schemas(self.io, self.paths)

    @property
    def manifests(self) -> None:
        """None, because the files have no index of dynamic buckets. Raises TableReplaced."""
        self.check_identity()

    def with_newest_schema(self) -> SimulatedStore:
        newest = self.schemas.newest_id()
        return self if newest == self.schema.id else replace(self, schema=self.schemas.get(newest))

    def check_identity(self) -> None:
        self.identity.check()

    def latest_snapshot(self) -> Snapshot | None:
        newest = self.snapshots.latest()
        if newest is None or is_empty_commit(newest):
            self.check_identity()
        return newest

    def snapshot(self, number: int) -> Snapshot:
        return self.snapshots.get(number)

    def restored(self, state: Snapshot, unused: frozenset[str]) -> SimulatedState:
        """As ``FileStore.restored``."""
        return SimulatedState(self.warehouse, self.schema.num_buckets, state)

    def live_entries(self, snapshot: Snapshot | None, *_: object) -> list[ManifestEntry]:
        """As ``FileStore.live_entries``."""
        found = self.warehouse.files_at(snapshot).items()
        return [ManifestEntry(ADD, *at, self.schema.num_buckets, file) for at, files in found for file in files]

    def vector_files(self, snapshot: Snapshot | None) -> dict[BucketKey, list[IndexManifestEntry]]:
        """Deletion vectors: none."""
        return {}

    def bucket_writer(self, partition: bytes, bucket: int, **_: object) -> _BucketWriter:
        return _BucketWriter(self.warehouse, self.schema)

    def max_sequence_numbers(self, snapshot: Snapshot | None, touched: Collection[BucketKey]) -> dict[BucketKey, int]:
        files = self.warehouse.files_at(snapshot)
        return {
            bucket_key: max(f.max_sequence_number for f in files[bucket_key])
            for bucket_key in touched
            if files.get(bucket_key)
        }

    def commit(self, request: CommitRequest) -> Snapshot:
        """As ``TableCommit.commit``: prepares on the newest snapshot, creates the next one if it is absent."""
        scheduler = self.scheduler
        for round_ in range(_ROUNDS):
            latest = self.snapshots.latest()
            warehouse = self.warehouse
            if round_ or not request.first_try:
                done = self.snapshots.find(request.user, request.identifier, start=latest)
                if done is not None:
                    return done
                earliest = min(warehouse.snapshots, default=1)
                if not request.first_try and request.since is not None and earliest > request.since + 1:
                    raise CommitUnknown("a snapshot that may be of an earlier attempt has expired")
            live = remaining(warehouse.files_at(latest), request)
            for change in request.files:
                bucket_key = (change.partition, change.bucket)
                files = live.get(bucket_key, ())
                live[bucket_key] = files + tuple(self._above(file, files) for file in change.new_files)
            properties = {**request.properties, TABLE_ID: self.schema.options[TABLE_ID]}
            if request.prepare is not None:
                properties |= request.prepare(latest)
            schema_id = self.schemas.newest_id(0 if latest is None else latest.schema_id)
            made = _snapshot(
                1 if latest is None else latest.id + 1, schema_id, request, properties, scheduler.time_ns()
            )
            self.check_identity()
            is_replacement = self.replaces and (request.kind == OVERWRITE or request.user.startswith(REPLACEMENT))
            if is_replacement:
                scheduler.stop_here(0.2)
            scheduler.pause(f"create snapshot {made.id}")
            if self.table_path not in self.beside:
                raise moved(self.table_path)
            warehouse = self.warehouse
            held = warehouse.snapshots
            newest = warehouse.newest
            if made.id in held or (newest is not None and made.id <= newest.id):
                scheduler.events["lost snapshot races"] += 1
                scheduler.sleep(0.01 * scheduler.random())
                continue
            lost = scheduler.loses(f"create snapshot {made.id}", 0.1 if is_replacement else None)
            if not lost or scheduler.dice.random() < 0.6:
                is_other = latest is None or made.id - 1 not in held or warehouse.read(made.id - 1) != latest
                held[made.id] = made
                warehouse.live[made.id] = live
                self._check_behind(warehouse, made.id, is_other)
            if lost and scheduler.dice.random() < 0.5:
                if self.replaces and held.get(made.id) is not made:
                    self._send_late(warehouse, made, live)
                raise CommitUnknown(f"unknown whether snapshot {made.id} was created")
            if not lost or held.get(made.id) is made:
                scheduler.landmark(f"created snapshot {made.id} of {request.user} {request.identifier}")
                return made
        raise CommitConflict(f"commit {request.identifier} of {request.user} lost {_ROUNDS} times")

    def _send_late(self, warehouse: Warehouse, made: Snapshot, live: LiveFiles) -> None:
        """A snapshot whose creation had no answer appears later, if its number is still free then."""
        scheduler = self.scheduler
        base = warehouse.snapshots.get(made.id - 1)

        def arrive() -> None:
            scheduler.sleep(scheduler.lease_s * scheduler.dice.choice((0.01, 0.1, 2.0)) * scheduler.random())
            newest = warehouse.newest
            if made.id in warehouse.snapshots or newest != base:
                return
            warehouse.snapshots[made.id] = made
            warehouse.live[made.id] = live
            scheduler.events["late snapshots"] += 1
            scheduler.note(f"snapshot {made.id} of {made.commit_user} arrives late")

        scheduler.start(Program("network", is_safe=True), arrive)

    def _check_behind(self, warehouse: Warehouse, number: int, is_other: bool) -> None:
        """As ``TableCommit``: one that does not follow the snapshot it was built on may be in another table."""
        if is_other:
            try:
                self.check_identity()
            except TableReplaced:
                is_moved = self.beside.get(self.table_path) is not warehouse
                if not (is_moved or self.identity.is_distinguishable()):
                    warehouse.expire(number)
                raise

    def expire_snapshots(self, keep: Retention, keep_from: Callable[[], int | None]) -> list[int]:
        """As ``Expiry.expire``: removes the oldest first, and never the newest."""
        held = dict(self.warehouse.snapshots)
        if not held:
            return []
        limit = keep_from()
        newest = self.warehouse.newest
        if newest is None:
            return []
        held = {number: snapshot for number, snapshot in held.items() if number <= newest.id}
        end = pick_end(
            min(held), max(held), lambda number: held[number].time_millis, keep, clock.now_ms(), limit or max(held)
        )
        while end > min(held) and is_foreign(held[end], self.schema):
            end -= 1  # it is read by the one before it
        gone = list(range(min(held), end))
        warehouse = self.warehouse  # the directory that ``Removal`` holds
        if gone:
            self.check_identity()
        for number in gone:
            self.scheduler.pause(f"expire snapshot {number}")
            warehouse.expire(number)
            self.scheduler.events["expired snapshots"] += 1
        return gone

    def _above(self, file: DataFileMeta, others: Sequence[DataFileMeta]) -> DataFileMeta:
        """The file with sequence numbers above those of others."""
        highest = max((f.max_sequence_number for f in others), default=-1)
        if not self.schema.is_keyed or file.min_sequence_number > highest:
            return file
        shift = highest + 1 - file.min_sequence_number
        shifted = [(n + shift, *rest) for n, *rest in self.warehouse.rows_of(file)]
        return self.warehouse.new_file(shifted, file.schema_id)

    def plan(
        self,
        snapshot_id: int | Snapshot | None = None,
        filter: Any = None,
        extra_runs: Mapping[BucketKey, Sequence[bytes]] | None = None,
        **_: object,
    ) -> list[Split]:
        """One split per bucket."""
        try:
            return [self._pruned(split, filter) for split in self._plan(snapshot_id, extra_runs or {})]
        finally:
            self.check_identity()

    def _pruned(self, split: Split, filter: Any) -> Split:
        """The files of a table without a key that may have rows that match, as their statistics tell."""
        if filter is None or self.schema.is_keyed:
            return split
        files = (f for f in split.files if any(row[2] in filter.values for row in self.warehouse.rows_of(f)))
        return replace(split, files=tuple(files))

    def _plan(self, snapshot_id: int | Snapshot | None, extra: Mapping[BucketKey, Sequence[bytes]]) -> list[Split]:
        if snapshot_id is None:
            snapshot_id = self.latest_snapshot()
        live = self.warehouse.files_at(snapshot_id)
        number = snapshot_id.id if isinstance(snapshot_id, Snapshot) else snapshot_id
        return [
            Split(
                *bucket_key,
                self.schema.num_buckets,
                live.get(bucket_key, ()),
                True,
                number,
                tuple(extra.get(bucket_key, ())),
            )
            for bucket_key in sorted({*live, *extra})
        ]

    def read_split(
        self, split: Split, columns: Sequence[str] | None = None, filter: Any = None, **_: object
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a bucket."""
        if self.replaces:
            self.scheduler.pause("read rows")
        rows = [row for file in split.files for row in self.warehouse.rows_of(file)]
        for run in split.inline_runs:
            table = self.runs.from_ipc(run)
            numbers = (table.column(name).to_pylist() for name in ("_SEQUENCE_NUMBER", "_VALUE_KIND"))
            rows += zip(*numbers, *_values(table, self.schema), strict=True)
        if self.schema.is_keyed:
            rows = [row for row in newest(rows) if row[1] not in (DELETE, UPDATE_BEFORE)]
        if filter is not None:
            assert isinstance(filter, In) and filter.column == "id"
            rows = [row for row in rows if row[2] in filter.values]
        found = {f.name: [row[2 + f.id] for row in rows] for f in self.schema.fields}
        schema = pa.schema([pa.field(name, pa.int64()) for name in found])
        yield pa.RecordBatch.from_pydict(found, schema=schema).select(list(columns or found))


def _values(rows: pa.Table, schema: TableSchema) -> tuple[list[Any], ...]:
    """The columns by id."""
    names = {field.id: field.name for field in schema.fields}
    nothing = [None] * rows.num_rows
    return tuple(rows.column(names[at]).to_pylist() if at in names else nothing for at in range(COLUMNS))


def _snapshot(number: int, schema_id: int, request: CommitRequest, properties: Mapping[str, str], ns: int) -> Snapshot:
    return Snapshot(
        number, schema_id, "", "", request.user, request.identifier, request.kind, ns // 1_000_000, 0, 0,
        watermark=request.watermark, properties=properties or None,
    )  # fmt: skip
