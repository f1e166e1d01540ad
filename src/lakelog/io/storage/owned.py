"""The storage of a table whose snapshots are made visible by a server."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.io.storage.delegating import DelegatingFileIO
from lakelog.io.storage.snapshot_owner import SnapshotOwner


@dataclass(frozen=True)
class ServerCommittedFileIO(DelegatingFileIO):
    """Another storage, and who commits what lies in it."""

    owner: SnapshotOwner

    @property
    def snapshot_owner(self) -> SnapshotOwner | None:
        return self.owner
