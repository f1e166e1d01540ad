"""Commits files as one new snapshot (format sheet 2.1)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.errors import CommitConflict, CommitUnknown, InvalidRequest, LakelogError, NotFound, TableReplaced
from lakelog.filestore.commit.conflicts import (
    changelog_of,
    check_conflicts,
    check_kept,
    check_seen,
    check_vectors,
    entries_of,
)
from lakelog.filestore.commit.renumber import SequenceRewriter, highest_sequences
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.commit.snapshot_builder import NextSnapshot
from lakelog.filestore.metadata.identity import Identity
from lakelog.filestore.metadata.manifests import IndexManifests, Manifests, ManifestWriter
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.metadata.snapshots import EARLIEST, LATEST, Snapshots
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.io import clock
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.io.storage.snapshot_owner import PartitionChange, SnapshotOwner
from lakelog.merge.table_rules import check_writable
from lakelog.options.commit import COMMIT_MAX_RETRIES, COMMIT_MAX_WAIT, COMMIT_MIN_WAIT, COMMIT_TIMEOUT
from lakelog.options.metrics import (
    BYTES_WRITTEN,
    COMMIT_CONFLICTS,
    COMMIT_DURATION,
    COMMIT_FAILURES,
    COMMITS,
    ROWS_WRITTEN,
)
from lakelog.options.option import Options
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.manifest import ADD, DELETE, ManifestEntry
from lakelog.paimon.metadata.snapshot import ANALYZE, APPEND, COMPACT, OVERWRITE, Snapshot
from lakelog.paimon.rows.partition import decode_partition, partition_spec
from lakelog.paimon.schema.schema import TableSchema

_KINDS = (APPEND, COMPACT, OVERWRITE, ANALYZE)
_STALLED_ROUNDS = 10
"""Maximum consecutive lost rounds without a commit of another writer."""
_GROWING_ROUNDS = 6
_ASKED_AGAIN = 3
"""Maximum attempts to create a snapshot while the outcome is unknown."""
_LOG: Final = logging.getLogger("lakelog.commit")


@dataclass(frozen=True)
class TableCommit:
    """Commits to one table.

    1 collect the changes · 2 already committed (user, identifier, kind) → return that snapshot · 3 check conflicts with
    the newest snapshot; new level-0 files of keyed tables get sequence numbers above those of all its files · 4 write
    manifests and manifest lists, and check that the table was not replaced · 5 create ``snapshot-<n+1>`` if it is
    absent, or have the table's owner do so; lost → back to 2 · 6 write the hints. Nothing is visible before step 5,
    everything after it.

    Each round determines the files that an overwrite replaces (step 3), so it replaces all of the previous snapshot's.
    """

    snapshots: Snapshots
    manifests: Manifests
    renumbering: SequenceRewriter
    table: str = ""
    identity: Identity | None = None

    def commit(self, request: CommitRequest) -> Snapshot:
        """Commits, and returns the snapshot that contains the files (an older one if it was already committed).

        Raises CommitConflict (another commit replaced the files, or all retries were lost, see ``_RetryPolicy``),
        CommitUnknown (the outcome is unknown; retry with the same request), InvalidRequest for an empty commit,
        UnsupportedFeature for a table that lakelog cannot write, TableReplaced, and the errors of ``prepare``.
        """
        # 1
        changes = self._collect(request)
        options = Options(self.manifests.paths.schema.options)
        retries = _RetryPolicy(options)
        seen, after = 0, request.after
        while True:
            latest, after = self.snapshots.latest(after), None
            # 2
            if retries.losses > 0 or not request.first_try:
                done = self.snapshots.find(request.user, request.identifier, request.kind, latest, after=seen)
                if done is not None:
                    return done
                self._check_searched(request, latest)
            seen = 0 if latest is None else latest.id
            writer = ManifestWriter(self.manifests.io, self.manifests.paths)
            try:
                # 3
                changes, replaced = self._fit(request, changes, latest)
                # 4
                entries = [*replaced, *entries_of(changes)]
                snapshot = NextSnapshot(self.manifests, writer).make(request, entries, changelog_of(changes), latest)
                self._check_identity()
            except NotFound:
                # later commits exist, and expiry has removed the files that only this snapshot referenced
                if (self.snapshots.latest_id() or 0) == seen:
                    self._delete_copies(request, changes)
                    raise
            except Exception:
                # a conflict, a replaced table or ``prepare`` aborts the commit
                self._delete_copies(request, changes)
                self._delete(writer)
                raise
            else:
                # 5
                if self._create(snapshot, entries) and self._follows_the_newest(snapshot, entries, latest):
                    # 6
                    self._write_hints(snapshot)
                    return snapshot
                METER.add(COMMIT_CONFLICTS, table=self.table)
            self._delete(writer)
            if not retries.wait_after_loss(seen):
                break
        self._delete_copies(request, changes)
        raise CommitConflict(
            f"commit {request.identifier} of user {request.user} to table {self.manifests.paths.table} lost against "
            f"other commits {retries.losses} times: try again, or raise '{retries.limit}'"
        )

    def _check_searched(self, request: CommitRequest, latest: Snapshot | None) -> None:
        """Raises CommitUnknown if an earlier attempt may be in a snapshot that has expired."""
        if request.first_try or request.since is None or latest is None:
            return
        earliest = self.snapshots.earliest_id() or latest.id
        if earliest > request.since + 1:
            raise CommitUnknown(
                f"snapshots {request.since + 1} to {earliest - 1} of table {self.manifests.paths.table} have expired, "
                f"and one of them may be of commit user {request.user}, whose outcome was unknown: check the rows, "
                "then write them again or not"
            )

    def _collect(self, request: CommitRequest) -> tuple[BucketFiles, ...]:
        if request.kind not in _KINDS:
            raise InvalidRequest(f"unknown commit kind '{request.kind}': use one of {', '.join(_KINDS)}")
        if request.overwrite is not None and request.kind not in (OVERWRITE, COMPACT):
            raise InvalidRequest(
                f"only a commit of kind {OVERWRITE} or {COMPACT} replaces partitions, not {request.kind}"
            )
        check_writable(self.manifests.paths.schema.options)
        changes = tuple(b for b in request.files if b.new_files or b.deleted_files or b.changelog_files)
        others = (request.overwrite, request.statistics, request.index or None)
        if not changes and not request.allow_empty and all(other is None for other in others):
            raise InvalidRequest(f"commit {request.identifier} of user {request.user} has no files")
        return changes

    def _fit(
        self, request: CommitRequest, changes: tuple[BucketFiles, ...], latest: Snapshot | None
    ) -> tuple[tuple[BucketFiles, ...], list[ManifestEntry]]:
        """The changes adapted to the newest snapshot, and the entries that delete the overwritten files."""
        live = self._touched(request, changes, latest)
        over, schema = request.overwrite, self.manifests.paths.schema
        covered = () if over is None else (e for e in live if over.replaces(e.partition, e.file.file_name))
        replaced = [replace(e, kind=DELETE) for e in covered]
        kept = None if over is None else over.kept
        if kept:
            check_kept(kept, live, IndexManifests(self.manifests).entries(latest))
        check_conflicts(live, [*replaced, *entries_of(changes)], request.kind, schema)
        check_vectors(live, [*replaced, *entries_of(changes)], request.index)
        if request.index.seen:
            check_seen(IndexManifests(self.manifests).entries(latest), request.index)
        if not schema.is_keyed or request.kind == COMPACT or kept is not None:
            return changes, replaced
        deleted = {e.identifier for e in (*entries_of(changes), *replaced)}
        highest = highest_sequences(e for e in live if e.identifier not in deleted)
        fitted = tuple(self.renumbering.above(b, highest.get((b.partition, b.bucket))) for b in changes)
        self._delete_copies(request, [old for old, new in zip(changes, fitted, strict=True) if old is not new])
        return fitted, replaced

    def _touched(
        self, request: CommitRequest, changes: tuple[BucketFiles, ...], latest: Snapshot | None
    ) -> list[ManifestEntry]:
        """The live files of all partitions that the commit changes."""
        partitions = {b.partition for b in changes} | {e.partition for e in request.index.added}
        over = request.overwrite
        if over is not None and over.partitions is None:
            return self.manifests.live(latest)
        if over is not None and over.partitions is not None:
            partitions |= over.partitions
        pruning = Pruning(Schemas(self.manifests.io, self.manifests.paths), partitions=frozenset(partitions))
        return self.manifests.live(latest, pruning.wants_manifest, in_bucket=pruning.wants_bucket) if partitions else []

    def _delete_copies(self, request: CommitRequest, changes: Sequence[BucketFiles]) -> None:
        """Deletes the renumbered files of earlier rounds; the caller owns the request's files and may retry."""
        files = [f for b in request.files for f in (*b.new_files, *b.changelog_files)]
        for change in changes:
            self.renumbering.delete(change, but=files)

    def _create(self, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        """Creates the snapshot. Returns False if another commit has taken its number."""
        path = self.manifests.paths.snapshot(snapshot.id)
        unknown: CommitUnknown | None = None
        for _ in range(_ASKED_AGAIN):
            try:
                return self._publish(path, snapshot, entries) or self._is_at(path, snapshot) is True
            except CommitUnknown as why:
                unknown = why
            is_there = self._is_at(path, snapshot)
            if is_there is not None:
                return is_there
            # it may still appear; creating the same snapshot again is harmless
        raise CommitUnknown(
            f"unknown whether '{path}' was created: check with commit user {snapshot.commit_user} and identifier "
            f"{snapshot.commit_identifier}, or repeat the same commit"
        ) from unknown

    def _publish(self, path: str, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        owner = self._owner
        if owner is None:
            return self.snapshots.io.create(path, snapshot.to_json())
        paths = self.manifests.paths
        return owner.commit(paths.branch, snapshot.to_json(), partition_changes(entries, paths.schema))

    def _check_identity(self) -> None:
        if self.identity is not None:
            self.identity.check()

    @property
    def _owner(self) -> SnapshotOwner | None:
        return self.snapshots.io.snapshot_owner

    def _is_at(self, path: str, snapshot: Snapshot) -> bool | None:
        """Returns whether the snapshot's file contains this snapshot; None if there is no file."""
        content = self._content(path)
        if content is None:
            return None
        # an owner writes the file with its own formatting
        return content == snapshot.to_json() or (self._owner is not None and Snapshot.from_json(content) == snapshot)

    def _follows_the_newest(
        self, snapshot: Snapshot, entries: Sequence[ManifestEntry], latest: Snapshot | None
    ) -> bool:
        """Returns whether a created snapshot follows the newest one; otherwise deletes it.

        Its number may have been free only because expiry or a rollback removed a snapshot during the commit. Expiry
        removes the oldest first and never the newest, a rollback the newest first. So the commit is valid if the
        previous snapshot exists, unless that number was reused after a rollback. An owner checks this itself.
        """
        if self._owner is not None:
            return True
        with contextlib.suppress(NotFound):
            if self.snapshots.read(snapshot.id - 1) == latest:
                return True
        try:
            self._check_identity()
        except TableReplaced:
            # the new table reads it as an empty commit, and may have committed the next one on it
            if self.identity is None or not self.identity.is_distinguishable():
                self._take_back(snapshot)
            raise
        ids = [i for i in self.snapshots.ids() if i <= snapshot.id or not self._is_foreign(i)]
        if snapshot.id + 1 in ids:
            # a later snapshot shows its base
            base = self.snapshots.get(snapshot.id + 1).base_manifest_list
            identifiers = {e.identifier for e in self.manifests.live_of_list(base)}
            if all((e.identifier in identifiers) == (e.kind == ADD) for e in entries):
                return True
        elif snapshot.id not in ids:
            raise CommitUnknown(
                f"snapshot {snapshot.id} of table {self.manifests.paths.table} was expired or rolled back while it "
                f"was committed: check with commit user {snapshot.commit_user} and identifier "
                f"{snapshot.commit_identifier}"
            )
        elif max(ids) == snapshot.id and min(ids) == snapshot.id:
            return True
        self._take_back(snapshot)
        return False

    def _is_foreign(self, snapshot_id: int) -> bool:
        with contextlib.suppress(NotFound):
            return self.snapshots.is_foreign(snapshot_id)
        return False

    def _take_back(self, snapshot: Snapshot) -> None:
        """Deletes a created snapshot; not one of another commit, which has its number by now."""
        path = self.manifests.paths.snapshot(snapshot.id)
        if self._is_at(path, snapshot):
            self.snapshots.io.delete(path)

    def _content(self, path: str) -> bytes | None:
        try:
            return self.snapshots.io.read(path)
        except NotFound:
            return None

    def _write_hints(self, snapshot: Snapshot) -> None:
        self.snapshots.write_hint(LATEST, snapshot.id)
        if snapshot.id == 1:
            self.snapshots.write_hint(EARLIEST, snapshot.id)

    def _delete(self, writer: ManifestWriter) -> None:
        """Deletes the manifests of a round that was certainly lost."""
        for name in writer.written:
            try:
                writer.io.delete(writer.paths.manifest(name))
            except LakelogError:
                return


class _RetryPolicy:
    """The retry policy of a commit: number of retries and wait times.

    A loss to another commit is progress of the table, so losses alone do not end the retries. Of n writers each wins
    about every nth round. Waits increase to at most 64 times the shortest one, so that frequent losers do not starve.
    """

    def __init__(self, options: Options) -> None:
        self._shortest, self._longest = (options.need(o).total_seconds() for o in (COMMIT_MIN_WAIT, COMMIT_MAX_WAIT))
        self._most, timeout = options.get_typed(COMMIT_MAX_RETRIES), options.get_typed(COMMIT_TIMEOUT)
        self._end = None if timeout is None else clock.monotonic_s() + timeout.total_seconds()
        self._newest, self._stalled = -1, 0
        self.losses, self.limit = 0, COMMIT_MAX_RETRIES.key

    def wait_after_loss(self, seen: int) -> bool:
        """Waits after a lost round in which ``seen`` was the newest snapshot. Returns False if no retry is left."""
        self.losses += 1
        self._stalled = self._stalled + 1 if seen == self._newest else 0
        self._newest = seen
        if self._end is not None and clock.monotonic_s() > self._end:
            self.limit = COMMIT_TIMEOUT.key
            return False
        if self.losses > self._most if self._most is not None else self._stalled >= _STALLED_ROUNDS:
            return False
        clock.pause(min(self.losses - 1, _GROWING_ROUNDS), self._shortest, self._longest)
        return True


def partition_changes(entries: Iterable[ManifestEntry], schema: TableSchema) -> list[PartitionChange]:
    """The change of each partition with entries, in the order of their first entries."""
    by_partition: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        by_partition.setdefault(entry.partition, []).append(entry)
    return [
        PartitionChange(
            spec=partition_spec(decode_partition(partition, schema), schema),
            rows=sum(_sign(e) * e.file.row_count for e in held),
            size=sum(_sign(e) * e.file.file_size for e in held),
            files=sum(map(_sign, held)),
            newest_ms=max(clock.instant_of_local(e.file.creation_time_ms or 0) for e in held),
            buckets=held[-1].total_buckets,
        )
        for partition, held in by_partition.items()
    ]


def _sign(entry: ManifestEntry) -> int:
    return 1 if entry.kind == ADD else -1


def counted_commit(commit: TableCommit, request: CommitRequest, table: str) -> Snapshot:
    """Commits and records metrics, see ``TableCommit.commit``; rows of a compaction do not count as written."""
    try:
        with METER.step("commit", table=table, kind=request.kind) as span:
            snapshot = commit.commit(request)
            span.set(snapshot=snapshot.id)
    except LakelogError as why:
        METER.add(COMMIT_FAILURES, table=table, error=type(why).__name__)
        raise
    METER.add(COMMITS, table=table, kind=request.kind)
    METER.observe(COMMIT_DURATION, span.seconds, table=table, kind=request.kind)
    if request.kind != COMPACT:
        files = [file for bucket in request.files for file in bucket.new_files]
        METER.add(ROWS_WRITTEN, sum(file.row_count for file in files), table=table, store="files")
        METER.add(BYTES_WRITTEN, sum(file.file_size for file in files), table=table, store="files")
    _LOG.info(
        "table %s: snapshot %d (%s) in %.3f s", table, snapshot.id, request.kind, span.seconds,
        extra=fields(table=table, snapshot=snapshot.id, kind=request.kind, duration_s=round(span.seconds, 4)),
    )  # fmt: skip
    return snapshot
