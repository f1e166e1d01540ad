"""Expires snapshots and changelogs, and deletes their unshared files (format sheet 9, 12)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from lakelog.errors import InvalidOption, LakelogError, NotFound
from lakelog.filestore.gc.consumers import Consumers
from lakelog.filestore.gc.reachability import GcRoot, ReachableFiles
from lakelog.filestore.gc.removal import Removal
from lakelog.filestore.metadata.snapshots import EARLIEST, LATEST, Snapshots
from lakelog.io import clock
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.options.option import Options
from lakelog.options.retention import (
    CHANGELOG_TIME,
    CHANGELOGS_MAX,
    CHANGELOGS_MIN,
    CONSUMER_CHANGELOG_ONLY,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_TIME,
    SNAPSHOTS_MAX,
    SNAPSHOTS_MIN,
)
from lakelog.paimon.metadata.manifest import ADD

_FOR_EVER: Final = 1 << 62


@dataclass(frozen=True)
class Retention:
    """The retention rule: keeps at least ``smallest`` and at most ``largest`` of the newest, and between them those
    younger than ``time``; ``limit`` is the maximum number removed in one run."""

    smallest: int
    largest: int
    time: timedelta
    limit: int

    def __post_init__(self) -> None:
        if self.smallest < 1 or self.largest < self.smallest:
            raise InvalidOption(
                f"expiry cannot keep at least {self.smallest} and at most {self.largest} snapshots: the minimum must "
                "be 1 or more, and the maximum no less than the minimum"
            )


def snapshot_retention(given: Mapping[str, str]) -> Retention:
    """The retention of snapshots from a table's options."""
    options = Options(given)
    return Retention(
        options.need(SNAPSHOTS_MIN),
        options.need(SNAPSHOTS_MAX),
        options.need(SNAPSHOT_TIME),
        options.need(SNAPSHOT_EXPIRE_LIMIT),
    )


def changelog_retention(given: Mapping[str, str]) -> Retention:
    """The retention of changelogs, which defaults to that of the snapshots."""
    options, of_snapshots = Options(given), snapshot_retention(given)
    smallest, largest = options.get_typed(CHANGELOGS_MIN), options.get_typed(CHANGELOGS_MAX)
    return Retention(
        of_snapshots.smallest if smallest is None else smallest,
        of_snapshots.largest if largest is None else largest,
        options.get_typed(CHANGELOG_TIME) or of_snapshots.time,
        of_snapshots.limit,
    )


def outlives(changelogs: Retention, snapshots: Retention) -> bool:
    """Returns whether a changelog outlives its snapshot."""
    return (
        changelogs.smallest > snapshots.smallest
        or changelogs.largest > snapshots.largest
        or changelogs.time > snapshots.time
    )


def pick_end(
    first: int, newest: int, time_of: Callable[[int], int | None], keep: Retention, now_ms: int, limit: int = _FOR_EVER
) -> int:
    """The first remaining id if ids from ``first`` expire; ``first`` itself if none does. Pure.

    ``time_of`` is the commit time of an id in milliseconds (None: it does not exist); ``limit`` is an id that must
    stay. An id expires by age only if the next one has at least the retention time. So a snapshot is retained for that
    time after it was superseded. Equal times count as old, because the clock of a disk stands still for milliseconds.
    """
    begin = max(newest - keep.largest + 1, first)
    end = min(newest - keep.smallest + 1, limit, first + keep.limit)
    oldest = now_ms - keep.time.total_seconds() * 1000
    for at in range(begin, end):
        time = time_of(at + 1)
        if time is not None and oldest < time:
            return max(at, first)
    return max(min(end, newest), first)


def _is_due(first: int, newest: int, keep: Retention, times: _Times) -> bool:
    """Returns whether the oldest snapshot may expire, by ``pick_end`` or because its successor is missing."""
    if newest - first >= keep.largest:
        return True
    time = times.of(first + 1)
    return time is None or time <= times.now_ms - keep.time.total_seconds() * 1000


@dataclass
class _Times:
    """The times of snapshots; one after ``now_ms`` is of a wrong clock, and that of the file counts."""

    snapshots: Snapshots
    now_ms: int
    _stored: Mapping[int, int] | None = None

    def of(self, snapshot_id: int) -> int | None:
        """The time of a snapshot in milliseconds; None if it does not exist."""
        try:
            time = self.snapshots.get(snapshot_id).time_millis
        except NotFound:
            return None
        if time <= self.now_ms:
            return time
        if self._stored is None:
            self._stored = self.snapshots.stored_ms()
        return self._stored.get(snapshot_id)


@dataclass(frozen=True)
class Expiry:
    """Expires the snapshots and changelogs of one branch."""

    references: ReachableFiles

    def expire(self, keep: Retention | None = None, keep_from: Callable[[], int | None] | None = None) -> list[int]:
        """Removes old snapshots, oldest first; returns their ids.

        ``keep`` defaults to the table's options. ``keep_from`` returns the id from which on all are kept, regardless of
        age. It never removes the newest snapshot, an unread snapshot of a consumer, or a file that a snapshot, tag,
        branch or changelog references. Safe at any time, also concurrently in several processes.
        """
        removal = Removal(self.references)
        removal.finish()
        ids = self.plan(keep, keep_from)
        if ids:  # by the clock of this machine, which may be ahead
            ids = self.plan(keep, keep_from, now_ms=storage_now_ms(self.references.io, self.references.paths.root))
        if ids:
            self._remove(removal, ids)
        self._expire_changelogs(removal)
        return ids

    @property
    def _options(self) -> Options:
        return Options(self.references.paths.schema.options)

    def plan(
        self,
        keep: Retention | None = None,
        keep_from: Callable[[], int | None] | None = None,
        minds_consumers: bool = True,
        now_ms: int | None = None,
    ) -> list[int]:
        """The ids that ``expire`` would remove now, oldest first, with the same parameters. Changes nothing.

        Without ``minds_consumers``, it ignores the positions of consumers. ``now_ms`` is the present time (None: that
        of this machine).
        """
        snapshots = self.references.snapshots
        times = _Times(snapshots, clock.now_ms() if now_ms is None else now_ms)
        newest, first = snapshots.latest_id(), snapshots.earliest_id()
        keep = snapshot_retention(self._options) if keep is None else keep
        if newest is None or first is None or newest - first < keep.smallest:
            return []
        if not _is_due(first, newest, keep, times):
            return []  # a listing of all snapshots at each commit would cost more with each of them
        chain = snapshots.chain_ids()
        if not chain:
            return []
        first, newest = chain[0], chain[-1]
        found = None if keep_from is None else keep_from()
        limit = _FOR_EVER if found is None else found
        if minds_consumers and not self._options.need(CONSUMER_CHANGELOG_ONLY):
            needed = Consumers(self.references.io, self.references.paths).smallest()
            limit = min(limit, _FOR_EVER if needed is None else needed)
        end = pick_end(first, newest, times.of, keep, times.now_ms, limit)
        with contextlib.suppress(NotFound):
            while end > first and snapshots.is_foreign(end):
                end -= 1  # it is read by the one before it
        return list(range(first, end))

    def _remove(self, removal: Removal, ids: Sequence[int]) -> None:
        references = self.references
        end = ids[-1] + 1
        try:
            expiring = [replace(self._root(i), expiring=True) for i in ids]
            kept = self._root(end)
        except NotFound:
            return  # another process is expiring
        if outlives(changelog_retention(self._options), snapshot_retention(self._options)):
            self._keep_changelogs(ids)
        candidates = {path for root in expiring for path in references.metadata_of(root)}
        for root in expiring:
            candidates |= {p for e in references.changelog(root.snapshot) for p in references.entry_files(e)}
        for root in (*expiring[1:], kept):
            # a file is removed with the snapshot before the one that deleted it
            candidates |= self._deleted_by(root)
        removal.remove(
            expiring,
            candidates - references.metadata_of(kept),
            lambda: [kept, *references.tag_roots(), *references.changelogs(), *references.other_branches_roots()],
            after=lambda: self.references.snapshots.write_hint(EARLIEST, end),
        )

    def _root(self, snapshot_id: int) -> GcRoot:
        return GcRoot(self.references.paths.snapshot(snapshot_id), self.references.snapshots.get(snapshot_id))

    def _deleted_by(self, root: GcRoot) -> set[str]:
        try:
            entries = self.references.manifests.delta(root.snapshot)
        except NotFound:
            return set()  # an expiry of another engine failed here, after it had deleted the data files
        added = {p for e in entries if e.kind == ADD for p in self.references.entry_files(e)}
        return {p for e in entries if e.kind != ADD for p in self.references.entry_files(e)} - added

    # changelogs that outlive their snapshots

    def _keep_changelogs(self, ids: Sequence[int]) -> None:
        io, paths = self.references.io, self.references.paths
        for snapshot_id in ids:
            io.create(paths.changelog(snapshot_id), self.references.snapshots.content(snapshot_id))
        self._write_changelog_hints()

    def _expire_changelogs(self, removal: Removal) -> None:
        references = self.references
        changelogs = references.changelogs()
        newest = self.references.snapshots.latest_id() if len(changelogs) > 1 else None
        if newest is None:
            return
        needed = Consumers(references.io, references.paths).smallest()
        times = {root.snapshot.id + 1: root.snapshot.time_millis for root in changelogs}
        first, last = changelogs[0].snapshot.id, changelogs[-1].snapshot.id
        limit = min(last, last if needed is None else needed)
        keep = changelog_retention(self._options)
        end = pick_end(first, newest, times.get, keep, clock.now_ms(), limit)
        if end > first:
            now_ms = storage_now_ms(references.io, references.paths.root)
            end = pick_end(first, newest, times.get, keep, now_ms, limit)
        expiring = [root for root in changelogs if root.snapshot.id < end]
        if expiring:
            candidates = {path for root in expiring for path in references.files_to_delete(root)}
            removal.remove(expiring, candidates, removal.all_roots, after=self._write_changelog_hints)

    def _write_changelog_hints(self) -> None:
        ids = [root.snapshot.id for root in self.references.changelogs()]
        for name, chosen in ((EARLIEST, min), (LATEST, max)):
            if ids:
                with contextlib.suppress(LakelogError):
                    path = f"{self.references.paths.changelogs}/{name}"
                    self.references.io.write_hint(path, str(chosen(ids)).encode())
