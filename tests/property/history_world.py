"""A small table in memory with a model of every snapshot, tag and branch that must stay readable."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from faults import FaultPlan, FaultyFileIO
from lakelog.filestore.commit.request import CommitRequest, Overwrite
from lakelog.filestore.gc.expiry import Retention
from lakelog.filestore.read.plan import flat, plan_splits
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.partition import encode_partition
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.types import parse_type

PATH = "/db.db/t"
MAIN = "main"
Rows = dict[int, str]


@dataclass
class Model:
    """The expected rows of each snapshot and each tag, by branch."""

    snapshots: dict[str, dict[int, Rows]] = field(default_factory=lambda: {MAIN: {}})
    tags: dict[str, dict[str, tuple[int, Rows]]] = field(default_factory=lambda: {MAIN: {}})

    def now(self, branch: str) -> Rows:
        held = self.snapshots[branch]
        return dict(held[max(held)]) if held else {}


@dataclass
class World:
    """The table and its model."""

    io: MemoryFileIO
    model: Model = field(default_factory=Model)

    @staticmethod
    def make(**options: str) -> World:
        given = {"bucket": "1", "file-operation.thread-num": "1", "manifest.merge-min-count": "4"}
        given |= {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
        fields = [("id", parse_type("INT NOT NULL"), None), ("name", parse_type("STRING"), None)]
        io = MemoryFileIO(new_uuid())
        io.write(f"{PATH}/schema/schema-0", new_schema(fields, ("id",), (), given).to_json())
        return World(io)

    def twin(self) -> World:
        """A copy of the table and model in a separate storage."""
        name = new_uuid()
        made = MemoryFileIO(name)
        made._store.files.update(self.io._store.files)
        made._store.directories.update(self.io._store.directories)
        return World(made, copy.deepcopy(self.model))

    def store(self, branch: str = MAIN, io: FileIO | None = None) -> FileStore:
        schema = TableSchema.from_json(self.io.read(f"{PATH}/schema/schema-0"))
        return FileStore(FaultyFileIO(self.io, FaultPlan()) if io is None else io, PATH, schema, branch)

    # changes of the table and the model

    def write(self, rows: dict[int, str | None], branch: str = MAIN, overwrite: bool = False) -> None:
        """Upserts rows (None deletes), or replaces all rows."""
        store = self.store(branch)
        partition = encode_partition((), store.schema)
        highest = store.max_sequence_numbers(store.latest_snapshot(), {(partition, 0)})
        writer = store.bucket_writer(partition, 0, highest.get((partition, 0), -1) + 1)
        table = pa.table(
            {"id": pa.array(list(rows), pa.int32()), "name": [v or "" for v in rows.values()]},
            schema=pa.schema([pa.field("id", pa.int32(), False), ("name", pa.string())]),
        )
        writer.write(table, pa.array([0 if v is not None else 3 for v in rows.values()], pa.int8()))
        files = (BucketFiles(partition, 0, 1, new_files=writer.finish()),)
        whole = Overwrite() if overwrite else None
        kind = "OVERWRITE" if overwrite else "APPEND"
        snapshot = store.commit(CommitRequest(new_uuid(), 1, kind, files, overwrite=whole))
        now = {} if overwrite else self.model.now(branch)
        for key, value in rows.items():
            now.pop(key, None)
            if value is not None:
                now[key] = value
        self.model.snapshots[branch][snapshot.id] = now

    def compact(self, branch: str = MAIN, full: bool = True) -> None:
        store = self.store(branch)
        snapshot = store.compact(encode_partition((), store.schema), 0, full)
        if snapshot is not None:
            self.model.snapshots[branch][snapshot.id] = self.model.now(branch)

    def expire(self, kept: int, branch: str = MAIN, io: FileIO | None = None) -> None:
        self.store(branch, io).expire_snapshots(Retention(1, kept, timedelta(hours=1), 100))
        held = self.model.snapshots[branch]
        for old in sorted(held)[:-kept]:
            del held[old]

    def tag(self, name: str, snapshot_id: int, branch: str = MAIN, io: FileIO | None = None) -> None:
        self.store(branch, io).tags.create(name, snapshot_id)
        self.model.tags[branch][name] = (snapshot_id, self.model.snapshots[branch][snapshot_id])

    def delete_tag(self, name: str, branch: str = MAIN, io: FileIO | None = None) -> None:
        self.store(branch, io).tags.delete(name)
        del self.model.tags[branch][name]

    def branch(self, name: str, tag: str | None, io: FileIO | None = None) -> None:
        self.store(MAIN, io).branches.create(name, tag)
        self.model.snapshots[name], self.model.tags[name] = {}, {}
        if tag is not None:
            held = self.model.tags[MAIN][tag]
            self.model.tags[name][tag] = held
            self.model.snapshots[name][held[0]] = held[1]

    def delete_branch(self, name: str, io: FileIO | None = None) -> None:
        self.store(MAIN, io).branches.delete(name)
        del self.model.snapshots[name], self.model.tags[name]

    def fast_forward(self, name: str, io: FileIO | None = None) -> None:
        main = self.store(MAIN, io)
        state = self.store(name, io).latest_snapshot()
        assert state is not None
        self._restored(MAIN, main.restore(state, main.branches.unused_files(name)), self.model.now(name))

    def rollback(self, snapshot_id: int, branch: str = MAIN, io: FileIO | None = None) -> None:
        store = self.store(branch, io)
        self._restored(branch, store.restore(store.snapshot(snapshot_id)), self.model.snapshots[branch][snapshot_id])

    def rollback_to_tag(self, name: str, branch: str = MAIN, io: FileIO | None = None) -> None:
        store = self.store(branch, io)
        self._restored(branch, store.restore(store.tags.get(name).snapshot), self.model.tags[branch][name][1])

    def _restored(self, branch: str, made: Snapshot, rows: Rows) -> None:
        """Everything else stays: snapshots and tags after the state, too."""
        self.model.snapshots[branch][made.id] = dict(rows)

    def clean(self, io: FileIO | None = None) -> None:
        self.store(MAIN, io).remove_orphans(older_than_ms=0)

    # what is there

    def check_names(self) -> None:
        """Asserts that exactly the snapshots, tags and branches of the model exist."""
        assert sorted(self.store().branches.list()) == sorted(b for b in self.model.snapshots if b != MAIN)
        for branch, held in self.model.snapshots.items():
            seen = self.store(branch)
            assert seen.snapshots.chain_ids() == sorted(held), branch
            assert seen.snapshots.latest_id() == max(held, default=None), branch
            assert sorted(tag.name for tag in seen.tags.list()) == sorted(self.model.tags[branch]), branch

    def check(self) -> None:
        """Asserts that exactly the model's objects exist, with all their rows."""
        self.check_names()
        for branch, held in self.model.snapshots.items():
            seen = self.store(branch)
            for snapshot_id, rows in held.items():
                assert read(seen, seen.snapshot(snapshot_id)) == rows, (branch, snapshot_id)
            for name, (_, rows) in self.model.tags[branch].items():
                assert read(seen, seen.tags.get(name).snapshot) == rows, (branch, name)

    def check_half_done(self, before: Model, after: Model) -> None:
        """Every snapshot and tag that can be seen has all its rows, and what a change neither makes nor takes is seen.

        True at any moment of the change from one model to the other.
        """
        for branch in (MAIN, *self.store().branches.list()):
            seen = self.store(branch)
            rows = {i: read(seen, seen.snapshot(i)) for i in seen.snapshots.chain_ids()}
            tagged = {tag.name: (tag.snapshot.id, read(seen, tag.snapshot)) for tag in seen.tags.list()}
            if branch in before.snapshots and branch in after.snapshots:
                for i, held in before.snapshots[branch].items():
                    if after.snapshots[branch].get(i) == held:
                        assert rows.get(i) == held, (branch, i)
                for name, tag in before.tags[branch].items():
                    if after.tags[branch].get(name) == tag:
                        assert tagged.get(name) == tag, (branch, name)
        assert (before.snapshots.keys() & after.snapshots.keys()) <= {MAIN, *self.store().branches.list()}

    def check_no_leak(self) -> None:
        """Asserts that no unreferenced file exists."""
        top = f"{PATH}/"
        there = {name.removeprefix(top) for name in self.io._store.files}
        data = {name for name in there if name.startswith(("manifest/", "index/", "statistics/", "bucket-"))}
        needed: set[str] = set()
        for branch in self.model.snapshots:
            seen = self.store(branch)
            snapshots = [seen.snapshot(i) for i in self.model.snapshots[branch]]
            for snapshot in (*snapshots, *(tag.snapshot for tag in seen.tags.list())):
                lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
                needed |= {f"manifest/{name}" for name in lists}
                needed |= {f"manifest/{m.file_name}" for m in seen.manifests.manifests_of(snapshot)}
                needed |= {f"bucket-0/{e.file.file_name}" for e in seen.manifests.live(snapshot)}
                needed |= (
                    {f"bucket-0/{e.file.file_name}" for e in seen.manifests.delta(snapshot) if e.kind == 0}
                    if snapshot in snapshots
                    else set()
                )
        assert data == needed, (sorted(data - needed), sorted(needed - data))
        own = [name for name in there if name.startswith("lakelog/")]
        # the next process that asks for the storage's time removes that of a dead one, after an hour
        assert not [name for name in own if not name.startswith("lakelog/clock-")], own


def read(store: FileStore, snapshot: Snapshot) -> Rows:
    """The rows of a snapshot, read by a new store, which has no cached objects."""
    pruning = Pruning(store.schemas, None, None, None)
    splits = flat(plan_splits(store.manifests.live(snapshot), store.schema, pruning, snapshot.id))
    rows = store.read_table(splits).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["name"] for row in rows}
