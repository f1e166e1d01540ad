"""The snapshots as readers of changes see them: those that are there, and changelogs that outlived theirs (sheet 9)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lakelog.errors import NotFound
from lakelog.filestore.metadata.snapshots import Snapshots
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.types.checked_values import read_as

_NAME: Final = re.compile(r"changelog-(\d+)")


@dataclass(frozen=True)
class ChangeHistory:
    """What changed in one branch, snapshot by snapshot, as far back as something tells of it."""

    snapshots: Snapshots

    def get(self, snapshot_id: int) -> Snapshot:
        """A snapshot, or the changelog that is left of it, which may name data files that are gone.

        Raises NotFound when neither is there.
        """
        paths = self.snapshots.paths
        # expiry writes the changelog before it deletes the snapshot
        for path in (paths.snapshot(snapshot_id), paths.changelog(snapshot_id)):
            try:
                return read_as(self.snapshots.io, path, Snapshot.from_json)
            except NotFound:
                continue
        return self.snapshots.get(snapshot_id)

    def earliest_id(self) -> int | None:
        """The first id from which on every change is told; None for a table without snapshots."""
        earliest = self.snapshots.earliest_id()
        if earliest is None:
            return None
        names = (_NAME.fullmatch(status.name) for status in self.snapshots.io.list(self.snapshots.paths.changelogs))
        kept = {int(match[1]) for match in names if match}
        while earliest - 1 in kept:
            earliest -= 1
        return earliest
