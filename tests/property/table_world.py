"""A table and a dict of its expected rows: the newest state, every snapshot and every tag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from faults import FaultPlan, FaultyFileIO
from lakelog.errors import NotFound
from lakelog.filestore.commit.request import CommitRequest, Overwrite
from lakelog.filestore.metadata.manifests import IndexManifests
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.rows.partition import encode_partition
from lakelog.paimon.rows.row_kind import DELETE, INSERT
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import parse_type

ROOT = "/w/db.db/t"
COLUMNS = (("p", "STRING"), ("id", "INT"), ("v", "STRING"))

Row = tuple[str, int, str | None]
State = dict[tuple[str, int], str | None]


def make_table(io: FileIO, **options: str) -> FileStore:
    """A new keyed table (p, id, v), partitioned by p."""
    given = {"bucket": "1", **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}}
    fields = [(name, parse_type(kind), None) for name, kind in COLUMNS]
    schema = new_schema(fields, ("p", "id"), ("p",), given)
    io.write(f"{ROOT}/schema/schema-0", schema.to_json())
    return FileStore(io, ROOT, schema)


def write_files(
    store: FileStore, rows: Sequence[Row], deleted: Iterable[tuple[str, int]] = (), emits_changelog: bool = True
) -> tuple[BucketFiles, ...]:
    """Data and changelog files of upserts and deletes, numbered above the newest snapshot like a writer's."""
    changes = [(INSERT, *row) for row in rows] + [(DELETE, *key, None) for key in deleted]
    schema = store.schema
    given = dict(zip((0, 1, 2), zip(*[change[1:] for change in changes], strict=True), strict=True))
    target = arrow_schema(schema.fields)
    columns = [pa.array(given.get(f.id, [None] * len(changes)), target.field(f.name).type) for f in schema.fields]
    table = pa.Table.from_arrays(columns, schema=target)
    buckets = bucket_of_rows(table, schema)
    places: dict[tuple[bytes, int], list[int]] = {}
    for at, change in enumerate(changes):
        places.setdefault((encode_partition((change[1],), schema), int(buckets[at])), []).append(at)
    highest = store.max_sequence_numbers(store.latest_snapshot(), set(places))
    made = []
    for (partition, bucket), at in sorted(places.items()):
        first = highest.get((partition, bucket), -1) + 1
        writer = store.bucket_writer(partition, bucket, first, emits_changelog)
        writer.write(table.take(pa.array(at)), pa.array([changes[i][0] for i in at], pa.int8()))
        files = writer.finish()
        total = schema.num_buckets
        made.append(BucketFiles(partition, bucket, total, files, changelog_files=writer.changelog_files))
    return tuple(made)


@dataclass
class World:
    """A table, the expected rows of each snapshot, and faults of its storage."""

    store: FileStore
    states: dict[int, State] = field(default_factory=dict)
    now: State = field(default_factory=dict)
    commits: int = 0

    @staticmethod
    def make(**options: str) -> World:
        """A world with an empty table in memory."""
        return World(make_table(MemoryFileIO(new_uuid()), **options))

    def broken(self, plan: FaultPlan) -> FileStore:
        """The table of a process whose storage follows a fault plan."""
        return replace(self.store, io=FaultyFileIO(self.store.io, plan))

    # what a job does; each with an identifier of its own, so that it can be done again

    def upsert(
        self, store: FileStore, identifier: int, rows: Sequence[Row], deleted: Iterable[tuple[str, int]] = ()
    ) -> None:
        """Writes and commits rows."""
        store.commit(CommitRequest("job", identifier, "APPEND", write_files(store, rows, deleted)))

    def overwrite(self, store: FileStore, identifier: int, rows: Sequence[Row], partitions: Iterable[str]) -> None:
        """Replaces partitions by rows."""
        gone = frozenset(encode_partition((p,), store.schema) for p in partitions)
        files = write_files(store, rows, emits_changelog=False) if rows else ()
        store.commit(CommitRequest("job", identifier, "OVERWRITE", files, overwrite=Overwrite(gone)))

    def compact(self, store: FileStore) -> None:
        """Compacts every bucket that has something to compact."""
        for partition, bucket in store.buckets_to_compact(full=True):
            store.compact(partition, bucket, full=True)

    # what must be true

    def record(self, state: State) -> None:
        """Says what the newest state is; snapshots that were made since hold it, or what was there before."""
        ids = self.store.snapshots.ids()
        for snapshot_id in ids:
            if snapshot_id not in self.states:
                self.states[snapshot_id] = dict(state)
        self.now = dict(state)

    def check(self) -> None:
        """Every snapshot that is there reads as it did when it was made, and the newest state is right."""
        ids = self.store.snapshots.ids()
        for snapshot_id in ids:
            assert read(self.store, snapshot_id) == self.states[snapshot_id], f"snapshot {snapshot_id} of {sorted(ids)}"
        assert read(self.store) == self.now

    def leaked(self) -> list[str]:
        """Unreferenced files."""
        return sorted(set(all_files(self.store.io, ROOT)) - named_files(self.store))

    def missing(self) -> list[str]:
        """Referenced files that do not exist."""
        return sorted(named_files(self.store) - set(all_files(self.store.io, ROOT)))


def read(store: FileStore, snapshot_id: int | Snapshot | None = None) -> State:
    """The rows of a snapshot (None: the newest) as a dict; two rows of one key are an error."""
    names = [f.name for f in sorted(store.schema.fields, key=lambda f: f.id) if f.id < len(COLUMNS)]
    rows = store.read_table(store.plan(snapshot_id=snapshot_id), names).to_pylist()
    state = {tuple(row.values())[:2]: tuple(row.values())[2] for row in rows}
    assert len(state) == len(rows), "a key has two rows"
    return state


def all_files(io: FileIO, directory: str) -> list[str]:
    """Every file below a directory."""
    return [p for s in io.list(directory) for p in (all_files(io, s.path) if s.is_dir else [s.path])]


def named_files(store: FileStore) -> set[str]:
    """Every file that a table's snapshots, tags, branches and consumers need, found without lakelog's own cleaning."""
    out: set[str] = set()
    io = store.io
    branches = [s.name.removeprefix("branch-") for s in io.list(f"{ROOT}/branch")]
    for branch in ("main", *branches):
        seen = replace(store, branch=branch)
        paths = seen.paths
        for directory in (paths.schemas, paths.snapshots, paths.tags, paths.consumers, paths.changelogs):
            out |= {status.path for status in io.list(directory)}
        for name in [s for d in (paths.snapshots, paths.tags, paths.changelogs) for s in io.list(d)]:
            if name.name.startswith(("snapshot-", "tag-", "changelog-")):
                found = Snapshot.from_json(io.read(name.path))
                # a tag keeps the state alone, a changelog the changes alone
                out |= _changelog_of(seen, found) if not name.name.startswith("tag-") else set()
                out |= _named_by(seen, found) if not name.name.startswith("changelog-") else set()
    return out


def _changelog_of(store: FileStore, snapshot: Snapshot) -> set[str]:
    """The changes of a snapshot of a table with a changelog producer."""
    if snapshot.changelog_manifest_list is None:
        return set()
    metas = store.manifests.read_list(snapshot.changelog_manifest_list)
    out = {store.paths.manifest(name) for name in (snapshot.changelog_manifest_list, *(m.file_name for m in metas))}
    entries = store.manifests.changelog(snapshot)
    return out | {store.paths.data_file(e.partition, e.bucket, e.file) for e in entries}


def _named_by(store: FileStore, snapshot: Snapshot) -> set[str]:
    paths, manifests = store.paths, store.manifests
    lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
    out = {paths.manifest(name) for name in lists if name}
    metas = [meta for name in lists if name for meta in manifests.read_list(name)]
    out |= {paths.manifest(meta.file_name) for meta in metas}
    for entry in manifests.live(snapshot):
        path = paths.data_file(entry.partition, entry.bucket, entry.file)
        out |= {path, *(f"{path.rpartition('/')[0]}/{extra}" for extra in entry.file.extra_files)}
    if snapshot.index_manifest:
        out.add(paths.manifest(snapshot.index_manifest))
        out |= {paths.index_file(e.file_name) for e in IndexManifests(manifests).entries(snapshot)}
    if snapshot.statistics:
        out.add(paths.statistics_file(snapshot.statistics))
    return out


def newest_schema(io: FileIO) -> TableSchema:
    """The schema with the largest id."""
    ids = [int(s.name.rpartition("-")[2]) for s in io.list(f"{ROOT}/schema") if s.name.startswith("schema-")]
    if not ids:
        raise NotFound("no schema")
    return TableSchema.from_json(io.read(f"{ROOT}/schema/schema-{max(ids)}"))


def state_after(
    state: Mapping[tuple[str, int], str | None], rows: Iterable[Row], deleted: Iterable[tuple[str, int]] = ()
) -> State:
    """The dict after upserts and deletes."""
    out = dict(state)
    for p, number, v in rows:
        out[p, number] = v
    for key in deleted:
        out.pop(key, None)
    return out
