"""Rollback of a branch to an older snapshot or tag (format sheet 12)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakelog.errors import CommitConflict, InvalidRequest, LakelogError, NotFound
from lakelog.filestore.gc.reachability import GcRoot, ReachableFiles
from lakelog.filestore.gc.removal import Removal
from lakelog.filestore.metadata.snapshots import EARLIEST, LATEST, Snapshots
from lakelog.filestore.refs.tags import Tags
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.metadata.tag import snapshot_json_of

_ROUNDS: Final = 100
"""Maximum concurrent commits while the newest snapshots are removed."""


@dataclass(frozen=True)
class Rollback:
    """Makes an older state of one branch the newest.

    Snapshots are removed newest first, so that the newest remaining one is always a complete state of the table. A
    concurrent commit detects that its previous snapshot was removed (``filestore/commit/commit.py``). The unshared
    files of the removed snapshots are deleted last. If a server owns the snapshots, it does the rollback.
    """

    references: ReachableFiles
    after: Callable[[], None] = lambda: None
    """Called after a rollback, also before it deletes files, because readers of Iceberg metadata may need them."""

    def to_snapshot(self, snapshot_id: int) -> Snapshot:
        """Removes all snapshots, changelogs and tags after a snapshot. Raises NotFound."""
        target = self._snapshots.get(snapshot_id)
        if snapshot_id not in self._snapshots.chain_ids():
            raise NotFound(
                f"snapshot {snapshot_id} of table {self.references.paths.root} has expired: choose one in $snapshots"
            )
        if not self._is_done_by_owner(snapshot_id):
            self._remove_after(target)
        self.after()
        return target

    def to_tag(self, name: str) -> Snapshot:
        """Removes everything after the snapshot of a tag, which may have expired. Raises NotFound."""
        tag = Tags(self.references).get(name)
        target = tag.snapshot
        if self._is_done_by_owner(name):
            self.after()
            return target
        path = self.references.paths.snapshot(target.id)
        snapshots = self._snapshots
        chain = snapshots.chain_ids()
        if target.id not in chain:
            # strays of failed commits below the history would become a part of it again
            for stray in set(snapshots.ids()) - {target.id, *chain}:
                self.references.io.delete(self.references.paths.snapshot(stray))
        # below the chain it is not part of it until all newer ones are removed
        data = snapshot_json_of(self.references.io.read(self.references.paths.tag(name)))
        if not self.references.io.create(path, data) and not _same(self._snapshots.get(target.id), target):
            raise InvalidRequest(
                f"tag '{name}' points to an earlier snapshot {target.id}, which was rolled back and written again: "
                "create a branch from the tag instead"
            )
        self._remove_after(target)
        self.after()
        return target

    def to_time(self, time_ms: int) -> Snapshot:
        """Rolls back to the newest snapshot that is not newer than this time. Raises NotFound if all are newer."""
        return self.to_snapshot(self.id_at(time_ms))

    def id_at(self, time_ms: int) -> int:
        """The newest snapshot that is not newer than this time. Raises NotFound if all are newer."""
        for root in reversed(self.references.chain()):
            if root.snapshot.time_millis <= time_ms:
                return root.snapshot.id
        raise NotFound(
            f"table {self.references.paths.root} has no snapshot at or before {time_ms} ms: choose a later time"
        )

    def _is_done_by_owner(self, to: int | str) -> bool:
        owner = self.references.io.snapshot_owner
        if owner is not None:
            owner.roll_back(self.references.paths.branch, to)
        return owner is not None

    @property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self.references.io, self.references.paths)

    def _remove_after(self, target: Snapshot) -> None:
        for _ in range(_ROUNDS):
            newest = self._snapshots.latest_id()
            if newest is not None and newest <= target.id and not self._is_anything_newer(target):
                return
            self._remove_round(target)
        raise CommitConflict(
            f"table {self.references.paths.root}: other writers commit faster than the rollback removes their "
            "snapshots. Stop the writers and roll back again"
        )

    def _is_anything_newer(self, target: Snapshot) -> bool:
        return any(tag.snapshot.id > target.id for tag in self.references.tags()) or any(
            root.snapshot.id > target.id for root in self.references.changelogs()
        )

    def _remove_round(self, target: Snapshot) -> None:
        references = self.references
        kept = GcRoot(references.paths.snapshot(target.id), target)
        newer = [r for r in reversed(references.branch_roots()) if r.snapshot.id > target.id]
        newer.sort(key=lambda root: -root.snapshot.id)
        candidates = {path for root in newer for path in references.files_to_delete(root)} - references.metadata_of(
            kept
        )
        removal = Removal(references)
        removal.remove(newer, candidates, removal.all_roots, after=lambda: self._finish_round(target))

    def _finish_round(self, target: Snapshot) -> None:
        """Called once the snapshots are gone, and before their files are deleted."""
        self._write_hints(target)
        self.after()

    def _write_hints(self, target: Snapshot) -> None:
        self._snapshots.write_hint(LATEST, target.id)
        ids = self._snapshots.chain_ids()
        if ids:
            self._snapshots.write_hint(EARLIEST, ids[0])
        with contextlib.suppress(LakelogError):
            left = [root.snapshot.id for root in self.references.changelogs()]
            if left:
                self.references.io.write_hint(f"{self.references.paths.changelogs}/{LATEST}", str(max(left)).encode())


def _same(one: Snapshot, other: Snapshot) -> bool:
    return one.base_manifest_list == other.base_manifest_list and one.delta_manifest_list == other.delta_manifest_list
