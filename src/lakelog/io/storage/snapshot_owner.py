"""Who makes a table's snapshots visible where that is not the storage: the server of a catalog."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PartitionChange:
    """What one commit does to one partition: added − removed, by its manifest entries.

    ``spec`` has the values of the partition columns as text, as they stand in the directory; ``newest_ms`` is when the
    newest of the files was made.
    """

    spec: Mapping[str, str]
    rows: int
    size: int
    files: int
    newest_ms: int
    buckets: int


class SnapshotOwner(ABC):
    """The one that commits to a table; frozen and picklable, for whoever has the table's storage commits through it."""

    @abstractmethod
    def commit(self, branch: str, snapshot: bytes, changes: Sequence[PartitionChange]) -> bool:
        """Makes a snapshot visible, if its number is free; False when another commit has it.

        ``snapshot`` is the JSON of its file, which the owner writes. Raises CommitUnknown when the answer was lost
        (look at the snapshot's file), TableReplaced, CommitConflict, Unavailable (nothing was done).
        """

    @abstractmethod
    def roll_back(self, branch: str, to: int | str) -> None:
        """Makes a snapshot (its id) or a tag (its name) the newest state; what came after it is removed.

        Raises NotFound, CommitUnknown, Unavailable.
        """

    @abstractmethod
    def create_branch(self, name: str, tag: str | None) -> None:
        """Makes a branch from a tag, an empty one without.

        Raises AlreadyExists, NotFound, CommitUnknown (look whether the branch is there), Unavailable.
        """

    @abstractmethod
    def drop_branch(self, name: str) -> None:
        """Deletes a branch; data files that only it named stay. Raises NotFound, CommitUnknown, Unavailable."""

    @abstractmethod
    def forward_branch(self, name: str) -> None:
        """Makes main what a branch is. Raises NotFound, CommitUnknown, Unavailable."""
