"""Commits files as one new snapshot (format sheet 2.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakelog.errors import CommitConflict, CommitUnknown, InvalidRequest, LakelogError, NotFound, UnsupportedFeature
from lakelog.filestore.conflicts import check_conflicts, entries_of
from lakelog.filestore.manifest_merge import merge_manifests
from lakelog.filestore.manifests import Manifests, ManifestWriter
from lakelog.filestore.renumber import Renumbering, highest_sequences
from lakelog.filestore.snapshots import EARLIEST, LATEST, Snapshots
from lakelog.io import clock
from lakelog.io.names import random_fraction
from lakelog.options.option import Options
from lakelog.options.table import COMMIT_MAX_RETRIES, COMMIT_MAX_WAIT, COMMIT_MIN_WAIT, COMMIT_TIMEOUT, check_writable
from lakelog.spec.data_file import BucketFiles
from lakelog.spec.manifest import ADD, ManifestEntry
from lakelog.spec.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot

_ASKED_AGAIN = 3
"""How often a snapshot whose outcome is unknown is looked up and created again."""


@dataclass(frozen=True)
class CommitRequest:
    """What one commit puts into the table.

    ``user`` and ``identifier`` make it happen once: the same request again finds its snapshot. Identifiers of one user
    grow. ``properties`` go into the snapshot; ``prepare`` makes more of them from the newest snapshot, anew in each
    round, and may raise to give the commit up. ``first_try`` says that nobody can have tried this commit before (a
    fresh user), which saves looking for it. ``allow_empty`` makes a snapshot without files.
    """

    user: str
    identifier: int
    kind: str
    files: tuple[BucketFiles, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    allow_empty: bool = False
    prepare: Callable[[Snapshot | None], Mapping[str, str]] | None = None
    first_try: bool = False


@dataclass(frozen=True)
class TableCommit:
    """Commits to one table.

    1 collect the changes · 2 already committed (user, identifier, kind) → return that snapshot · 3 check conflicts with
    the newest snapshot; new level-0 files of keyed tables get sequence numbers above those of all files there ·
    4 write manifests and manifest lists · 5 create ``snapshot-<n+1>`` if it is absent; lost → back to 2 · 6 write
    the hints. Nothing is visible before step 5, everything after it.
    """

    snapshots: Snapshots
    manifests: Manifests
    renumbering: Renumbering

    def commit(self, request: CommitRequest) -> Snapshot:
        """Commits, and returns the snapshot that holds the files (an older one, if it was committed before).

        Raises CommitConflict (files were replaced by others; or the race was lost ``commit.max-retries`` times),
        CommitUnknown (nobody can say whether the snapshot was created: ask again with the same request),
        InvalidRequest for an empty commit, UnsupportedFeature for a table that must not be written, and what
        ``prepare`` raises.
        """
        # 1
        changes = self._collect(request)
        options = Options(self.manifests.paths.schema.options)
        started = clock.monotonic_s()
        timeout = options.get_typed(COMMIT_TIMEOUT)
        seen = 0
        rounds = options.need(COMMIT_MAX_RETRIES) + 1
        for round_ in range(rounds):
            latest = self.snapshots.latest()
            # 2
            if round_ > 0 or not request.first_try:
                done = self.snapshots.find(request.user, request.identifier, request.kind, latest, after=seen)
                if done is not None:
                    return done
            seen = 0 if latest is None else latest.id
            # 3
            try:
                changes = self._fit(request, changes, latest)
            except CommitConflict:
                self._delete_copies(request, changes)
                raise
            # 4
            writer = ManifestWriter(self.manifests.io, self.manifests.paths)
            snapshot = self._write_manifests(request, entries_of(changes), latest, writer)
            # 5
            if self._create(snapshot):
                # 6
                self._write_hints(snapshot)
                return snapshot
            self._delete(writer)
            if timeout is not None and clock.monotonic_s() - started > timeout.total_seconds():
                break
            self._wait(options, round_)
        self._delete_copies(request, changes)
        raise CommitConflict(
            f"commit {request.identifier} of user {request.user} to table {self.manifests.paths.root} lost against "
            f"other commits {rounds} times: try again, or raise '{COMMIT_MAX_RETRIES.key}'"
        )

    def _collect(self, request: CommitRequest) -> tuple[BucketFiles, ...]:
        if request.kind not in (APPEND, COMPACT, OVERWRITE):
            raise InvalidRequest(f"unknown commit kind '{request.kind}': use {APPEND}, {COMPACT} or {OVERWRITE}")
        check_writable(self.manifests.paths.schema.options)
        changes = tuple(b for b in request.files if b.new_files or b.deleted_files or b.changelog_files)
        if any(b.changelog_files for b in changes):
            raise UnsupportedFeature("changelog files cannot be committed: set 'changelog-producer' = 'none'")
        if not changes and not request.allow_empty:
            raise InvalidRequest(f"commit {request.identifier} of user {request.user} has no files")
        return changes

    def _fit(
        self, request: CommitRequest, changes: tuple[BucketFiles, ...], latest: Snapshot | None
    ) -> tuple[BucketFiles, ...]:
        partitions = {b.partition for b in changes}
        live = self.manifests.live(latest, wanted=lambda e: e.partition in partitions) if changes else []
        schema = self.manifests.paths.schema
        check_conflicts(live, entries_of(changes), request.kind, schema)
        if not schema.is_keyed or request.kind == COMPACT:
            return changes
        replaced = {e.identifier for e in entries_of(changes)}
        highest = highest_sequences(e for e in live if e.identifier not in replaced)
        fitted = tuple(self.renumbering.above(b, highest.get((b.partition, b.bucket))) for b in changes)
        self._delete_copies(request, [old for old, new in zip(changes, fitted, strict=True) if old is not new])
        return fitted

    def _delete_copies(self, request: CommitRequest, changes: Sequence[BucketFiles]) -> None:
        """Deletes the renumbered files of earlier rounds; those of the request are the caller's, who may come again."""
        given = [f for b in request.files for f in b.new_files]
        for change in changes:
            self.renumbering.delete(change, but=given)

    def _write_manifests(
        self, request: CommitRequest, entries: Sequence[ManifestEntry], latest: Snapshot | None, writer: ManifestWriter
    ) -> Snapshot:
        properties = dict(request.properties)
        if request.prepare is not None:
            properties.update(request.prepare(latest))
        before = [] if latest is None else self.manifests.manifests_of(latest)
        base, base_size = writer.write_list(merge_manifests(before, self.manifests, writer))
        delta, delta_size = writer.write_list([writer.write(entries)] if entries else [])
        rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in entries)
        schema_id = self.manifests.paths.schema.id
        watermarks = [w for w in (request.watermark, latest.watermark if latest else None) if w is not None]
        now = clock.now_ms()
        snapshot = Snapshot(
            id=1,
            schema_id=schema_id,
            base_manifest_list=base,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta,
            delta_manifest_list_size=delta_size,
            commit_user=request.user,
            commit_identifier=request.identifier,
            commit_kind=request.kind,
            time_millis=now,
            total_record_count=rows,
            delta_record_count=rows,
            watermark=max(watermarks, default=None),
            properties=properties or None,
            next_row_id=0,
        )
        return snapshot if latest is None else _after(snapshot, latest)

    def _create(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot is ours now; False when another commit has its number."""
        path = self.manifests.paths.snapshot(snapshot.id)
        data = snapshot.to_json()
        unknown: CommitUnknown | None = None
        for _ in range(_ASKED_AGAIN):
            try:
                return self.snapshots.io.create(path, data) or self._content(path) == data
            except CommitUnknown as why:
                unknown = why
            found = self._content(path)
            if found is not None:
                return found == data
            # it may still arrive; creating the same bytes again does no harm
        raise CommitUnknown(
            f"nobody knows whether '{path}' was created: ask with commit user {snapshot.commit_user} and identifier "
            f"{snapshot.commit_identifier}, or commit the same again"
        ) from unknown

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
        """Deletes the manifests of a round that has certainly lost."""
        for name in writer.written:
            try:
                writer.io.delete(writer.paths.manifest(name))
            except LakelogError:
                return

    def _wait(self, options: Options, round_: int) -> None:
        shortest, longest = (options.need(o).total_seconds() for o in (COMMIT_MIN_WAIT, COMMIT_MAX_WAIT))
        clock.sleep(min(longest, shortest * 2**round_) * (0.5 + random_fraction()))


def _after(snapshot: Snapshot, latest: Snapshot) -> Snapshot:
    """The snapshot as the one that follows ``latest``, with what is carried on from one to the next."""
    schema_id = max(snapshot.schema_id, latest.schema_id)
    return replace(
        snapshot,
        id=latest.id + 1,
        schema_id=schema_id,
        time_millis=max(snapshot.time_millis, latest.time_millis),
        total_record_count=(latest.total_record_count or 0) + (snapshot.delta_record_count or 0),
        index_manifest=latest.index_manifest,
        statistics=latest.statistics if schema_id == latest.schema_id else None,
        next_row_id=latest.next_row_id or 0,
    )
