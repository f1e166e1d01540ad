"""One bucket to compact, and its outcome: immutable values that are sent to the executor."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lakelog.errors import NotFound
from lakelog.filestore.compaction.planner import CompactionResult
from lakelog.filestore.metadata.levels import is_apart
from lakelog.io.lease import Lease, Leases
from lakelog.io.logs import fields
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.runs.sequencing import BucketKey

_LOG = logging.getLogger("lakelog.compact")

_PACK_BYTES: Final = 64 << 20
_PACKS_PER_SLOT: Final = 4


@dataclass(frozen=True)
class BucketTask:
    """A bucket that a compaction would change; ``runs`` sorted runs and ``size`` bytes at planning time."""

    partition: bytes
    bucket: int
    full: bool
    runs: int
    size: int

    @property
    def bucket_key(self) -> BucketKey:
        """Partition and bucket."""
        return self.partition, self.bucket


@dataclass(frozen=True)
class BucketOutcome:
    """The outcome of a task: a result to commit (with the lease to release afterwards), or nothing to do.

    ``busy``: another compactor has the bucket. ``lost``: another one has replaced the files in the meantime.
    """

    task: BucketTask
    result: CompactionResult | None = None
    lease: Lease | None = None
    busy: bool = False
    lost: bool = False


class Executor(Protocol):
    """Runs tasks in this process, or on Spark's executors."""

    @property
    def slots(self) -> int:
        """The useful number of parallel calls of ``run``."""

    def run(self, table: DynamicTable, tasks: Sequence[BucketTask]) -> list[BucketOutcome]:
        """Compacts buckets one after the other, without commits."""


@dataclass(frozen=True)
class LocalExecutor:
    """Runs tasks in this process, in ``slots`` threads."""

    slots: int = 1

    def run(self, table: DynamicTable, tasks: Sequence[BucketTask]) -> list[BucketOutcome]:
        """Compacts buckets one after the other, without commits."""
        return [compact_bucket(table, task) for task in tasks]


def plan_tasks(table: DynamicTable, full: bool, partitions: Iterable[bytes] | None = None) -> list[BucketTask]:
    """The buckets, of all or some partitions, that a compaction would change; most runs first."""
    found = table.store.files_to_compact(full, None if partitions is None else set(partitions))
    tasks = [
        BucketTask(*bucket_key, full, runs_of(files), sum(f.file_size for f in files))
        for bucket_key, files in found.items()
    ]
    return sorted(tasks, key=lambda task: -task.runs)


def runs_of(files: Iterable[DataFileMeta]) -> int:
    """The sorted runs of a bucket that compactions make fewer: each file of level 0 is one, and each level above."""
    levels = [f.level for f in files if not is_apart(f)]
    return levels.count(0) + len({level for level in levels if level > 0})


def pack_tasks(tasks: Sequence[BucketTask], slots: int) -> list[tuple[BucketTask, ...]]:
    """Tasks in packs for one call each: small ones together, large ones alone, the largest first. Pure."""
    limit = min(_PACK_BYTES, sum(t.size for t in tasks) // (slots * _PACKS_PER_SLOT) + 1)
    packs: list[tuple[BucketTask, ...]] = []
    pack: list[BucketTask] = []
    for task in sorted(tasks, key=lambda task: -task.size):
        if pack and sum(t.size for t in pack) + task.size > limit:
            packs.append(tuple(pack))
            pack = []
        pack.append(task)
    return [*packs, tuple(pack)] if pack else packs


def compact_bucket(table: DynamicTable, task: BucketTask) -> BucketOutcome:
    """Compacts one bucket under its lease, without committing; the lease is kept for the commit.

    Called on the executor of the task. Raises the errors of reading and writing files.
    """
    leases = leases_of(table)
    lease = leases.take(bucket_task(task.partition, task.bucket))
    if lease is None:
        return BucketOutcome(task, busy=True)
    try:
        with leases.renewing(lease):
            outcome = _compacted(table, task, lease)
    except BaseException:
        leases.release(lease)
        raise
    if outcome.lease is None:
        leases.release(lease)
    return outcome


def bucket_task(partition: bytes, bucket: int) -> str:
    """The name of a bucket in leases."""
    return f"{hashlib.sha256(partition).hexdigest()[:16]}-{bucket}"


def leases_of(table: DynamicTable) -> Leases:
    """The leases of the table's branch."""
    return Leases(table.io, table.store.paths.compaction_leases)


def _compacted(table: DynamicTable, task: BucketTask, lease: Lease) -> BucketOutcome:
    before = table.store.snapshots.latest_id()
    try:
        result = table.store.run_compaction(task.partition, task.bucket, full=task.full)
    except NotFound as missing:
        if table.store.snapshots.latest_id() == before:
            raise
        # another compactor was faster, and expiry has deleted the replaced files
        facts = fields(table=table.name, bucket=task.bucket)
        _LOG.info("compaction of %s, bucket %s, lost its files: %s", table.name, task.bucket, missing, extra=facts)
        return BucketOutcome(task, lost=True)
    return BucketOutcome(task) if result is None else BucketOutcome(task, result, lease)
