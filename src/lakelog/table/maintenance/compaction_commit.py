"""Commits the results of compactions in small groups, so that a conflict costs little."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import CommitConflict, LakelogError
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.compaction.planner import CompactionResult, joined_index
from lakelog.filestore.metadata.manifest_compaction import are_few
from lakelog.io.clock import monotonic_s
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.io.names import new_uuid
from lakelog.io.quantities import format_bytes
from lakelog.options.metrics import COMPACTED_BYTES, COMPACTED_FILES, COMPACTION_CONFLICTS
from lakelog.options.notebook import NotebookView
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.table.maintenance.compaction_task import BucketOutcome, BucketTask, leases_of
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import carried_state

_LOG = logging.getLogger("lakelog.compact")
GROUP_S: Final = 5.0
"""Maximum time that a result waits for others before it is committed."""
_GROUP: Final = 64
"""Maximum number of results in one commit."""


@dataclass(frozen=True, repr=False)
class CompactionSummary(NotebookView):
    """The result of a compaction. True if it changed something.

    ``snapshots`` are the new ones, oldest first. ``files_before`` and ``bytes_before`` count the replaced files,
    ``files_after`` and ``bytes_after`` the new ones (a file that only changed its level is in both). ``busy`` buckets
    were left to another compactor. In ``lost`` ones another commit was faster.
    """

    snapshots: tuple[Snapshot, ...] = ()
    buckets: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    busy: int = 0
    lost: int = 0
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.snapshots)

    def __repr__(self) -> str:
        left = "".join(f", {n} buckets {why}" for n, why in ((self.busy, "busy"), (self.lost, "lost")) if n)
        return (
            f"CompactionSummary({self.buckets} buckets, {self.files_before} → {self.files_after} files, "
            f"{self.bytes_before:,} → {self.bytes_after:,} bytes, {self.seconds:.1f} s, {self.snapshot}{left})"
        )

    def notebook_facts(self) -> Mapping[str, object]:
        """Buckets, files and bytes before and after, and the newest snapshot."""
        return {
            "buckets": self.buckets,
            "files": f"{self.files_before:,} → {self.files_after:,}",
            "bytes": f"{format_bytes(self.bytes_before)} → {format_bytes(self.bytes_after)}",
            "seconds": f"{self.seconds:.1f}",
            "busy buckets": self.busy or None,
            "lost buckets": self.lost or None,
            "snapshot": self.snapshot,
        }

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot that it made, None if there was nothing to do."""
        return self.snapshots[-1] if self.snapshots else None


class GroupedCommits:
    """Collects the outcomes of tasks and commits them in groups; for one run of one table."""

    def __init__(self, table: DynamicTable) -> None:
        self._table = table
        self._held: list[BucketOutcome] = []
        self._oldest = 0.0
        self.snapshots: list[Snapshot] = []
        self.committed: list[CompactionResult] = []
        self.busy: list[BucketTask] = []
        self.lost: list[BucketTask] = []

    def add(self, outcomes: Sequence[BucketOutcome]) -> None:
        """Adds outcomes, without a commit."""
        self.busy += [o.task for o in outcomes if o.busy]
        self.lost += [o.task for o in outcomes if o.lost]
        changed = [o for o in outcomes if o.result is not None]
        if changed and not self._held:
            self._oldest = monotonic_s()
        self._held += changed

    @property
    def is_due(self) -> bool:
        """True if the collected results are due for a commit."""
        return len(self._held) >= _GROUP or (bool(self._held) and monotonic_s() - self._oldest >= GROUP_S)

    def commit(self, properties: Mapping[str, str] | None = None) -> None:
        """Commits the collected results, if any; ``properties`` are for the snapshot that contains all of them.

        If the commit conflicts with another one, it commits each bucket separately, and deletes the files of lost
        buckets. Raises CommitUnknown, Unavailable.
        """
        outcomes, self._held = self._held, []
        try:
            self._commit(outcomes, properties or {})
        finally:
            for outcome in outcomes:
                if outcome.lease is not None:
                    leases_of(self._table).release(outcome.lease)

    def summary(self, seconds: float) -> CompactionSummary:
        replaced = [f for r in self.committed for f in r.files.deleted_files]
        new_files = [f for r in self.committed for f in r.files.new_files]
        return CompactionSummary(
            tuple(self.snapshots),
            len(self.committed),
            len(replaced),
            len(new_files),
            sum(f.file_size for f in replaced),
            sum(f.file_size for f in new_files),
            len(self.busy),
            len(self.lost),
            seconds,
        )

    def _commit(self, outcomes: Sequence[BucketOutcome], properties: Mapping[str, str]) -> None:
        results = [o.result for o in outcomes if o.result is not None]
        if not results:
            return
        request = CommitRequest(
            f"compact-{new_uuid()}",
            0,
            COMPACT,
            tuple(r.files for r in results),
            properties,
            prepare=lambda latest: carried_state(self._table.store, latest),
            first_try=True,
            index=joined_index(results),
        )
        try:
            self.snapshots.append(self._table.store.commit(request))
        except CommitConflict as conflict:
            if len(results) > 1:
                for outcome in outcomes:
                    self._commit([outcome], {})
                return
            task = outcomes[0].task
            facts = fields(table=self._table.name, bucket=task.bucket)
            _LOG.info("compaction of %s lost against another commit: %s", self._table.name, conflict, extra=facts)
            METER.add(COMPACTION_CONFLICTS, table=self._table.name)
            self.lost.append(task)
            _delete_files(self._table, results[0])
            return
        self.committed += results
        replaced = [file for result in results for file in result.files.deleted_files]
        METER.add(COMPACTED_FILES, len(replaced), table=self._table.name)
        METER.add(COMPACTED_BYTES, sum(file.file_size for file in replaced), table=self._table.name)


def _delete_files(table: DynamicTable, result: CompactionResult) -> None:
    """Deletes the files of a lost compaction; files that it only moved to another level stay."""
    paths, files = table.store.paths, result.files
    moved = {f.file_name for f in files.deleted_files}
    written = [f for f in (*files.new_files, *files.changelog_files) if f.file_name not in moved]
    with contextlib.suppress(LakelogError):
        for file in written:
            for path in paths.with_extra_files(files.partition, files.bucket, file):
                table.io.delete(path)
        for entry in result.index.added:
            table.io.delete(
                paths.bucket_index_file(entry.partition, entry.bucket, entry.file_name, entry.external_path)
            )


@dataclass(frozen=True)
class ManifestSummary(NotebookView):
    """Number and bytes of the manifests before and after; ``snapshot`` is None if there was no gain."""

    snapshot: Snapshot | None
    manifests_before: int
    manifests_after: int
    bytes_before: int
    bytes_after: int


def compact_manifests(table: DynamicTable) -> ManifestSummary:
    """Drops entries that were added and deleted, and merges the rest, by partition and bucket, in one snapshot.

    Called if planning has become slow before writers did it (``manifest.full-compaction-threshold-size``). The data
    files do not change. Raises CommitConflict, CommitUnknown, UnsupportedFeature for a table that must not be written.
    """
    store = table.store
    latest = store.latest_snapshot()
    before = [] if latest is None else store.manifests.manifests_of(latest)
    count, size = len(before), sum(m.file_size for m in before)
    if are_few(before, table.schema):
        return ManifestSummary(None, count, count, size, size)
    snapshot = store.commit(
        CommitRequest(
            f"manifests-{new_uuid()}",
            0,
            COMPACT,
            allow_empty=True,
            prepare=lambda s: carried_state(store, s),
            first_try=True,
            rewrite_manifests=True,
        )
    )
    after = store.manifests.manifests_of(snapshot)
    return ManifestSummary(snapshot, count, len(after), size, sum(m.file_size for m in after))
