"""The file store of one table: a picklable value that plans, reads, writes, commits and compacts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.commit.commit import TableCommit, counted_commit
from lakelog.filestore.commit.renumber import SequenceRewriter, highest_sequences
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.compaction.compactor import Compactor
from lakelog.filestore.compaction.planner import CompactionResult, pick_compaction
from lakelog.filestore.gc.consumers import Consumers
from lakelog.filestore.gc.expiry import Expiry, Retention
from lakelog.filestore.gc.orphans import DAY_MS, OrphanCleaning, Orphans
from lakelog.filestore.gc.partition_expiry import PartitionExpiry, PartitionRule, Properties
from lakelog.filestore.gc.reachability import ReachableFiles
from lakelog.filestore.iceberg.export import IcebergExport, is_exported, keep_exported
from lakelog.filestore.metadata.identity import Identity
from lakelog.filestore.metadata.manifests import DELETION_VECTORS, IndexManifests, Manifests
from lakelog.filestore.metadata.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.metadata.snapshots import ChangeHistory, Snapshots, is_empty_commit
from lakelog.filestore.read.data_file_reader import DataFileReader, row_schema
from lakelog.filestore.read.deletion_vectors import vector_refs
from lakelog.filestore.read.plan import BucketKey, Split, flat, plan_splits
from lakelog.filestore.read.split_reader import (
    SplitReader,
    attach_runs,
    check_files,
    check_readable,
    check_row_ids,
    merged_buckets,
)
from lakelog.filestore.refs.branches import Branches
from lakelog.filestore.refs.restored_state import RestoredState
from lakelog.filestore.refs.tags import Tags
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.filestore.write.bucket_writer import BucketWriter
from lakelog.filestore.write.data_file_writer import FileNames
from lakelog.io.names import new_uuid
from lakelog.io.storage.confined import confined
from lakelog.io.storage.file_io import FileIO
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN
from lakelog.merge.table_rules import is_evolving
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, IndexManifestEntry, ManifestEntry
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.paimon.schema.schema import DYNAMIC_BUCKET, POSTPONE_BUCKET, TableSchema


@dataclass(frozen=True)
class FileStore:
    """One branch of the files below ``table_path``, with one schema. Picklable; caches only immutable state.

    ``name`` is the table's name in metrics, logs and errors. Plans and commits check ``identity``; None accepts any
    table at the path.
    """

    io: FileIO
    table_path: str
    schema: TableSchema
    branch: str = MAIN_BRANCH
    name: str = ""
    identity: Identity | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "io", confined(self.io, self.table_path))

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def paths(self) -> TablePaths:
        return TablePaths(self.table_path, self.schema, self.branch, self.name)

    @cached_property
    def snapshots(self) -> Snapshots:
        return Snapshots(self.io, self.paths)

    @cached_property
    def change_history(self) -> ChangeHistory:
        """The snapshots, and the older changelogs that outlived their snapshots."""
        return ChangeHistory(self.snapshots)

    @cached_property
    def manifests(self) -> Manifests:
        return Manifests(self.io, self.paths)

    @cached_property
    def schemas(self) -> Schemas:
        return Schemas(self.io, self.paths)

    @cached_property
    def files(self) -> DataFileReader:
        return DataFileReader(self.io, self.paths, self.schemas)

    def with_newest_schema(self) -> FileStore:
        """The same files with the newest schema; returns itself if it has that schema."""
        newest = self.schemas.newest_id()
        return self if newest == self.schema.id else replace(self, schema=self.schemas.get(newest))

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot; None for a table without snapshots. Raises TableReplaced if the table was dropped."""
        newest = self.snapshots.latest()
        if newest is None or is_empty_commit(newest):
            self.check_identity()
        return newest

    def check_identity(self, within_s: float = 0.0) -> None:
        """Raises TableReplaced if the table at the path is not the opened one; see ``Identity.check``."""
        if self.identity is not None:
            self.identity.check(within_s)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """One snapshot. Raises NotFound, which lists the existing ones."""
        return self.snapshots.get(snapshot_id)

    def earliest_snapshot_id(self) -> int | None:
        """The oldest snapshot that has not expired; None for a table without snapshots."""
        return self.snapshots.earliest_id()

    def plan(
        self,
        snapshot_id: int | Snapshot | None = None,
        filter: Predicate | None = None,
        partitions: Iterable[bytes] | None = None,
        buckets: Iterable[int] | None = None,
        extra_runs: Mapping[BucketKey, Sequence[bytes]] | None = None,
        lowest_level: int = 0,
        totals: Mapping[bytes, int] | None = None,
        newer_rows_follow: bool = False,
    ) -> list[Split]:
        """The splits of a batch read, pruned by partition, bucket, key range and statistics.

        ``snapshot_id`` None is the newest snapshot, 0 the empty table before the first one. A ``Snapshot`` may be an
        expired one that a tag keeps. Files below ``lowest_level`` are skipped. ``partitions`` (serialised rows) and
        ``buckets`` limit the read. ``extra_runs`` adds rows per (partition, bucket) that are in no snapshot yet (Arrow
        IPC streams, see ``Split.inline_runs``). ``totals`` has the number of buckets of partitions where it differs
        from the table's. With ``newer_rows_follow`` the caller merges newer rows with the splits. Raises NotFound,
        TableReplaced, and UnsupportedFeature for a table with a feature that lakelog cannot read.
        """
        try:
            snapshot = self._snapshot_at(snapshot_id)
            check_readable(self.schema)
            pruning = Pruning(
                self.schemas,
                filter,
                None if partitions is None else frozenset(partitions),
                None if buckets is None else frozenset(buckets),
                merged_buckets(self.schema, None if newer_rows_follow else extra_runs or {}),
            )
            live = self._live(snapshot, pruning)
            live = [e for e in live if e.file.level >= lowest_level] if lowest_level else live
            check_files(live, self.schemas)
            if is_evolving(self.schema.options):
                check_row_ids(self.live_entries(snapshot))
            seen = None if snapshot is None else snapshot.id
            vectors = vector_refs(IndexManifests(self.manifests).entries(snapshot), self.paths)
            splits = plan_splits(live, self.schema, pruning, seen, vectors)
            attach_runs(splits, extra_runs or {}, self.schema, pruning, seen, totals or {})
            return flat(splits)
        finally:
            self.check_identity()  # after all reads, because an error of them may be due to a replaced table

    def read_split(
        self,
        split: Split,
        columns: Sequence[str] | None = None,
        filter: Predicate | None = None,
        keeps_kinds: bool = False,
        newest: Iterable[pa.RecordBatch] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a split that match, in batches of the table columns ``columns`` (None: all), in their order.

        ``keeps_kinds`` adds the deleted keys, and ``_VALUE_KIND`` as the last column. ``newest`` is a sorted run, newer
        than all rows of the split, to merge with a split of a keyed table (``SplitReader.read``).
        """
        with self.snapshots.reading(split.snapshot_id, self.name):
            yield from SplitReader(self.files, keeps_kinds).read(split, columns, filter, newest)

    def read_unfolded(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split for a rewrite that changes nothing (``SplitReader.unfolded``)."""
        with self.snapshots.reading(split.snapshot_id, self.name):
            yield from SplitReader(self.files).unfolded(split)

    def read_table(
        self, splits: Iterable[Split], columns: Sequence[str] | None = None, filter: Predicate | None = None
    ) -> pa.Table:
        """All rows of splits as one table."""
        names = self.schema.field_names if columns is None else columns
        batches = [batch for split in splits for batch in self.read_split(split, names, filter)]
        return pa.Table.from_batches(batches, row_schema(self.schema, names, False))

    def live_entries(
        self, snapshot: Snapshot | None, partitions: Iterable[bytes] | None = None, buckets: Iterable[int] | None = None
    ) -> list[ManifestEntry]:
        """The live files of a snapshot, of all or some partitions and buckets."""
        pruning = Pruning(
            self.schemas,
            None,
            None if partitions is None else frozenset(partitions),
            None if buckets is None else frozenset(buckets),
        )
        return self._live(snapshot, pruning)

    def _live(self, snapshot: Snapshot | None, pruning: Pruning) -> list[ManifestEntry]:
        if pruning.wants_all:
            return self.manifests.live(snapshot)
        return self.manifests.live(snapshot, pruning.wants_manifest, pruning.wants_entry, pruning.wants_bucket)

    def bucket_writer(
        self,
        partition: bytes,
        bucket: int,
        first_sequence: int = 0,
        emits_changelog: bool = True,
        names: FileNames | None = None,
    ) -> BucketWriter:
        """A writer of level-0 files of one bucket. Raises UnsupportedFeature for a table that lakelog cannot write."""
        return BucketWriter(self.io, self.paths, partition, bucket, first_sequence, emits_changelog, names)

    def commit(self, request: CommitRequest) -> Snapshot:
        """Makes files visible as one snapshot; see ``TableCommit.commit``."""
        commit = TableCommit(self.snapshots, self.manifests, SequenceRewriter(self.files), self.name, self.identity)
        snapshot = counted_commit(commit, request, self.name)
        self._export()
        return snapshot

    def _export(self) -> None:
        """Brings the Iceberg metadata of the main branch up to date, if the table has any."""
        if self.branch == MAIN_BRANCH and is_exported(self.schema):
            IcebergExport(self.references, self.name).export()

    def max_sequence_numbers(self, snapshot: Snapshot | None, touched: Collection[BucketKey]) -> dict[BucketKey, int]:
        """The largest sequence number of each of these (partition, bucket) that has files in a snapshot.

        Bucket -1 (rows without a dynamic bucket) represents all buckets of the partition.
        """
        if not touched:
            return {}
        buckets = {b for _, b in touched}
        some = None if DYNAMIC_BUCKET in buckets else buckets
        out: dict[BucketKey, int] = {}
        for (partition, bucket), number in highest_sequences(
            self.live_entries(snapshot, {p for p, _ in touched}, some)
        ).items():
            for bucket_key in ((partition, bucket), (partition, DYNAMIC_BUCKET)):
                if bucket_key in touched:
                    out[bucket_key] = max(number, out.get(bucket_key, number))
        return out

    def shift_sequences(
        self, partition: bytes, bucket: int, file: DataFileMeta, shift: int, is_changelog: bool = False
    ) -> DataFileMeta:
        """A copy of a data or changelog file with ``shift`` added to its sequence numbers; the original stays."""
        return SequenceRewriter(self.files).shift(partition, bucket, file, shift, is_changelog)

    def file_rows(
        self,
        partition: bytes,
        bucket: int,
        file: DataFileMeta,
        sequence_column: str = SEQUENCE_COLUMN,
        kind_column: str = KIND_COLUMN,
        shift: int = 0,
    ) -> pa.Table:
        """All rows of one data file: table columns, sequence number plus ``shift`` (int64), row kind (int8)."""
        names = self.schema.field_names
        batches = list(self.files.read(partition, bucket, file, names, system_columns=True))
        rows = pa.Table.from_batches(batches, row_schema(self.schema, names, True))
        at = len(names)
        numbers = pc.add(rows.column(at), pa.scalar(shift, pa.int64()))
        shifted = rows.set_column(at, rows.schema.field(at), numbers)
        return shifted.rename_columns([*names, sequence_column, kind_column])

    def buckets_to_compact(self, full: bool = False, partitions: Iterable[bytes] | None = None) -> list[BucketKey]:
        """The (partition, bucket) pairs, of all or some partitions, that need a compaction now."""
        return list(self.files_to_compact(full, partitions))

    def files_to_compact(
        self, full: bool = False, partitions: Iterable[bytes] | None = None
    ) -> dict[BucketKey, list[DataFileMeta]]:
        """All live files of the buckets, of all or some partitions, that need a compaction now."""
        by_bucket: dict[BucketKey, list[ManifestEntry]] = {}
        latest = self.latest_snapshot()
        for entry in self.live_entries(latest, partitions):
            if entry.bucket != POSTPONE_BUCKET:
                by_bucket.setdefault((entry.partition, entry.bucket), []).append(entry)
        vectors = self.vector_files(latest)
        return {
            bucket_key: [entry.file for entry in entries]
            for bucket_key, entries in sorted(by_bucket.items())
            if pick_compaction(entries, self.schema, full, vectors.get(bucket_key, ())) is not None
        }

    def run_compaction(self, partition: bytes, bucket: int, full: bool = False) -> CompactionResult | None:
        """Compacts one bucket without a commit; returns None if there is nothing to do."""
        newest = self.with_newest_schema()
        if newest is not self:
            # columns that this schema lacks would be lost, and the options may have changed
            return newest.run_compaction(partition, bucket, full)
        latest = self.latest_snapshot()
        check_readable(self.schema)
        entries = self.live_entries(latest, {partition}, {bucket})
        task = pick_compaction(entries, self.schema, full, self.vector_files(latest).get((partition, bucket), ()))
        if task is None:
            return None
        changed = Compactor(self.files).run_compaction(task)
        return changed or None

    def merged_files(self, files: BucketFiles) -> BucketFiles:
        """New level-0 files of an empty bucket, merged above level 0: reads of some tables skip that level.

        No snapshot references either of them yet. The changelog is left out.
        """
        entries = [ManifestEntry(ADD, files.partition, files.bucket, files.total_buckets, f) for f in files.new_files]
        task = pick_compaction(entries, self.schema, full=True) if self.schema.is_keyed else None
        if task is None:
            return replace(files, changelog_files=())
        merged = Compactor(self.files).run_compaction(task).files
        names = {file.file_name for file in merged.new_files}
        for file in (*files.new_files, *files.changelog_files, *merged.changelog_files):
            if file.file_name not in names:
                for path in self.paths.with_extra_files(files.partition, files.bucket, file):
                    self.io.delete(path)
        return BucketFiles(files.partition, files.bucket, files.total_buckets, new_files=merged.new_files)

    def vector_files(self, snapshot: Snapshot | None) -> dict[BucketKey, list[IndexManifestEntry]]:
        """The index files with deletion vectors, per bucket with any."""
        out: dict[BucketKey, list[IndexManifestEntry]] = {}
        for entry in IndexManifests(self.manifests).entries(snapshot):
            if entry.index_type == DELETION_VECTORS:
                out.setdefault((entry.partition, entry.bucket), []).append(entry)
        return out

    def compact(
        self, partition: bytes, bucket: int, full: bool = False, properties: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Compacts one bucket and commits; returns None if there is nothing to do.

        Raises CommitConflict if a concurrent compaction of the bucket won. No data is lost, and a later call can retry.
        """
        changed = self.run_compaction(partition, bucket, full)
        if changed is None:
            return None
        user, given = f"compact-{new_uuid()}", dict(properties or {})
        return self.commit(
            CommitRequest(user, 0, COMPACT, (changed.files,), given, first_try=True, index=changed.index)
        )

    @cached_property
    def references(self) -> ReachableFiles:
        """The files that snapshots, tags and branches reference."""
        return ReachableFiles(self.io, self.paths, self.identity)

    @property
    def tags(self) -> Tags:
        return Tags(self.references, self._export)

    @property
    def branches(self) -> Branches:
        """The branches of the table, with main as the base."""
        return Branches(self.references.of_branch(MAIN_BRANCH))

    @property
    def consumers(self) -> Consumers:
        """The positions of named readers of this branch."""
        return Consumers(self.io, self.paths)

    def restore(self, state: Snapshot, unused: frozenset[str] = frozenset()) -> Snapshot:
        """Makes an older state, or one of a branch, the newest; see ``RestoredState``. For a table without a log."""
        return self.restored(state, unused).commit(f"rollback-{new_uuid()}", self.latest_snapshot, self.commit)

    def restored(self, state: Snapshot, unused: frozenset[str] = frozenset()) -> RestoredState:
        """An older state, or one of a branch, for a commit that makes it the newest."""
        return RestoredState(self.io, self.paths, state, unused)

    def open_branch(self, name: str) -> FileStore:
        """The file store of another branch, with its newest schema. Raises NotFound."""
        return FileStore(self.io, self.table_path, self.branches.schema(name), name, self.name, self.identity)

    def expire_snapshots(
        self, keep: Retention | None = None, keep_from: Callable[[], int | None] | None = None
    ) -> list[int]:
        """Removes old snapshots and their unshared files; see ``Expiry.expire``. Raises TableReplaced."""
        expired = Expiry(self.references).expire(keep, keep_exported(self.references, keep_from))
        if expired:
            self._export()
        return expired

    def expirable_snapshots(
        self, keep_from: Callable[[], int | None] | None = None, minds_consumers: bool = True
    ) -> list[int]:
        """The snapshots that an expiry by the table's options would remove now; see ``Expiry.plan``."""
        return Expiry(self.references).plan(None, keep_exported(self.references, keep_from), minds_consumers)

    def expire_partitions(self, rule: PartitionRule, properties: Properties | None = None) -> list[bytes]:
        """Drops the partitions that a rule expires; see ``PartitionExpiry.expire``."""
        return PartitionExpiry(self.manifests, self.latest_snapshot, self.commit).expire(rule, properties)

    def remove_orphans(
        self, older_than_ms: int = DAY_MS, dry_run: bool = False, staged: Callable[[], Iterable[str]] = tuple
    ) -> Orphans:
        return OrphanCleaning(self.references, staged).clean(older_than_ms, dry_run)

    def _snapshot_at(self, snapshot_id: int | Snapshot | None) -> Snapshot | None:
        if snapshot_id is None or isinstance(snapshot_id, Snapshot):
            return self.latest_snapshot() if snapshot_id is None else snapshot_id
        return None if snapshot_id == 0 else self.snapshot(snapshot_id)
