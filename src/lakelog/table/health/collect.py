"""Collects a table's metrics from the manifests of one snapshot, file names, and the ends of the log; no data file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakelog.errors import LakelogError, NotFound
from lakelog.filestore.compaction.planner import CompactionTask, pick_compaction
from lakelog.filestore.compaction.strategy import is_small
from lakelog.filestore.gc.partition_expiry import PartitionRule, pick_old_partitions
from lakelog.filestore.metadata.levels import is_apart
from lakelog.filestore.read.plan import BucketKey
from lakelog.filestore.write.data_file_writer import target_file_size
from lakelog.io import clock
from lakelog.options.retention import RECORD_EXPIRE_TIME
from lakelog.paimon.metadata.manifest import IndexManifestEntry, ManifestEntry
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.paimon.rows.display import partition_text
from lakelog.paimon.schema.schema import POSTPONE_BUCKET, TableSchema
from lakelog.table.health.actions import ORPHAN_CLEANING
from lakelog.table.health.collect_log import collect_log_stats
from lakelog.table.health.stats import (
    BucketStats,
    DeadRun,
    IngestStats,
    LogStats,
    ReplicaStats,
    SnapshotStats,
    TableStats,
    ViewStats,
)
from lakelog.table.maintenance.compaction_schedule import FullCompactions
from lakelog.table.maintenance.compaction_task import bucket_task, leases_of, runs_of
from lakelog.table.maintenance.retention import expirable_snapshots
from lakelog.table.maintenance.run_history import DIED, Runs
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.waiting_epochs import undone_writers
from lakelog.table.rejected.entries import RejectedEntries
from lakelog.table.views.definition import ViewDefinition
from lakelog.table.views.report import ViewReport
from lakelog.table.views.sources import missing_views, source_states

_MOST_SNAPSHOTS = 5
"""Number of snapshots to search for one that added rows."""


def collect_table_stats(table: DynamicTable, with_log: bool = True) -> TableStats:
    """The current metrics of a table. They report an unavailable log.

    Called by ``table_health``. Raises NotFound if the table was dropped, Unavailable for its storage, Corrupt.
    """
    snapshot = table.store.latest_snapshot()
    files = _Files.of(table, snapshot)
    return TableStats(
        table.name,
        clock.now_ms(),
        table.schema.is_keyed,
        files.stats(),
        _snapshots(table, snapshot, files),
        _log(table) if with_log else None,
        _exact_rows(table, snapshot),
        RejectedEntries(table).visible().rows,
        table.io.space(table.path),
        IngestStats.read(table.io, table.path),
        undone_writers(table),
        _view(table),
        missing_views(table),
        ReplicaStats.read(table.io, table.path),
    )


def _view(table: DynamicTable) -> ViewStats | None:
    definition = ViewDefinition.of(table.schema)
    if definition is None:
        return None
    view = ViewStats(definition.query, definition.refreshes, definition.every_ms, definition.suspended)
    if table.others is None:  # in a task, which plans maintenance
        return view
    try:
        return replace(view, sources=source_states(table, definition), report=ViewReport.read(table.io, table.path))
    except LakelogError as why:
        return replace(view, trouble=f"{type(why).__name__}: {why}")


def _exact_rows(table: DynamicTable, snapshot: Snapshot | None) -> int | None:
    """The rows of a batch read, from metadata; None if keys may have several versions in the files."""
    if table.options.get_typed(RECORD_EXPIRE_TIME) is not None:
        return None
    counts = [split.exact_rows for split in table.store.plan(0 if snapshot is None else snapshot)]
    return None if None in counts else sum(count for count in counts if count is not None)


@dataclass(frozen=True)
class _Files:
    """The live files of one snapshot by bucket, and the index files with the deletion vectors of each."""

    schema: TableSchema
    by_bucket: Mapping[BucketKey, Sequence[ManifestEntry]]
    vectors: Mapping[BucketKey, Sequence[IndexManifestEntry]]
    compactors: Mapping[str, str]

    @staticmethod
    def of(table: DynamicTable, snapshot: Snapshot | None) -> _Files:
        by_bucket: dict[BucketKey, list[ManifestEntry]] = {}
        for entry in table.store.live_entries(snapshot):
            by_bucket.setdefault((entry.partition, entry.bucket), []).append(entry)
        vectors = {} if snapshot is None else table.store.vector_files(snapshot)
        owners = {task: lease.facts for task, lease in leases_of(table).held().items()}
        compactors = {t: f"{o['machine'].partition('/')[0]}, process {o['process']}" for t, o in owners.items()}
        return _Files(table.schema, dict(sorted(by_bucket.items())), vectors, compactors)

    @property
    def live(self) -> Iterator[ManifestEntry]:
        return (entry for entries in self.by_bucket.values() for entry in entries)

    def task(self, bucket_key: BucketKey, full: bool = False) -> CompactionTask | None:
        """The task of a compaction in a bucket; None if the bucket's files have no assigned bucket yet."""
        if bucket_key[1] == POSTPONE_BUCKET:
            return None
        return pick_compaction(self.by_bucket[bucket_key], self.schema, full, self.vectors.get(bucket_key, ()))

    def stats(self) -> tuple[BucketStats, ...]:
        return tuple(self._bucket_stats(bucket_key) for bucket_key in self.by_bucket)

    def _bucket_stats(self, bucket_key: BucketKey) -> BucketStats:
        files = [entry.file for entry in self.by_bucket[bucket_key]]
        task, target = self.task(bucket_key), target_file_size(self.schema)
        due = () if task is None else task.files
        return BucketStats(
            partition_text(bucket_key[0], self.schema),
            bucket_key[1],
            len(files),
            sum(f.file_size for f in files),
            sum(f.row_count for f in files),
            runs_of(files),
            sum(f.level == 0 and not is_apart(f) for f in files),
            sum(is_small(f, target) for f in files),
            len(due),
            sum(f.file_size for f in due),
            self.compactors.get(bucket_task(*bucket_key), ""),
        )


def _snapshots(table: DynamicTable, newest: Snapshot | None, files: _Files) -> SnapshotStats:
    store = table.store
    tags = store.tags.list()
    runs = Runs(table.io, table.path)
    dead = next((run for run in runs.list(1) if run.outcome == DIED), None)
    dead_run = None if dead is None else DeadRun(dead.kind, dead.host, dead.process)
    if newest is None:
        return SnapshotStats(tags=len(tags), created_ms=_created(table), dead_run=dead_run)
    free, without_consumers, holder = expirable_snapshots(table)
    first = store.earliest_snapshot_id()
    return SnapshotStats(
        newest.id,
        newest.time_millis,
        _last_write(table, newest),
        newest.id - (newest.id if first is None else min(first, newest.id)) + 1,
        free,
        without_consumers - free,
        holder,
        len(tags),
        len(store.tags.over()),
        _old_partitions(table, files),
        FullCompactions().is_due(table)
        and any(files.task(bucket_key, True) is not None for bucket_key in files.by_bucket),
        sum(not status.is_dir for status in table.io.list(store.paths.removals)),
        runs.last_completed_ms(ORPHAN_CLEANING),
        dead_run,
        _created(table),
    )


def _last_write(table: DynamicTable, newest: Snapshot) -> int | None:
    for snapshot in table.store.snapshots.backwards(newest):
        if snapshot.commit_kind != COMPACT:
            return snapshot.time_millis
        if snapshot.id <= newest.id - _MOST_SNAPSHOTS:
            break
    return None


def _created(table: DynamicTable) -> int:
    with contextlib.suppress(NotFound):
        return table.store.schemas.get(0).time_millis
    return table.schema.time_millis


def _old_partitions(table: DynamicTable, files: _Files) -> int:
    rule = PartitionRule.of(table.options) if table.schema.partition_keys else None
    if rule is None or (table.emits_log and not rule.is_by_values):
        return 0
    now = clock.local_now()
    return len(pick_old_partitions(files.live, table.schema, rule, now))


def _log(table: DynamicTable) -> LogStats | None:
    if table.log is None:
        return None
    try:
        return collect_log_stats(table)
    except LakelogError as why:
        return LogStats(trouble=f"{type(why).__name__}: {why}")
